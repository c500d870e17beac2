-- For agentic.nvim.
require("agentic").setup({
  provider = "acp-agent",
  acp_providers = {
    ["acp-agent"] = {
      name = "acp-agent",
      command = "/path/to/acp-agent",
      args = {},
      env = {},
    },
  },
})
