-- For agentic.nvim.
require("agentic").setup({
  provider = "acp-agent",
  acp_providers = {
    ["acp-agent"] = {
      name = "acp-agent",
      command = "/path/to/acp-agent",
      args = {},
      reconnect = true,
      env = { HOME = os.getenv("HOME"), LANG = "C.UTF-8", ANTHROPIC_API_KEY = os.getenv("ANTHROPIC_API_KEY") },
    },
  },
})
