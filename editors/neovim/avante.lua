-- For avante (Neovim 0.11 or newer). avante passes nothing but PATH and this `env`: list your keys here.
require("avante").setup({
  provider = "acp-agent",
  acp_providers = {
    ["acp-agent"] = {
      command = "/path/to/acp-agent",
      args = {},
      env = { HOME = os.getenv("HOME"), LANG = "C.UTF-8", ANTHROPIC_API_KEY = os.getenv("ANTHROPIC_API_KEY") },
    },
  },
})
