-- For avante (Neovim 0.11 or newer). avante passes nothing but PATH and this `env`: list your keys here.
require("avante").setup({
  provider = "acp-agent",
  -- Otherwise avante allows every call itself, and you are asked nothing.
  behaviour = { auto_approve_tool_permissions = false },
  -- Commands that avante is to send to the agent; without the first, /compact is avante's own, which fails here.
  slash_commands = {
    { name = "compact", description = "Make the conversation short", details = "Make the conversation short" },
    { name = "context", description = "Show what fills the window", details = "Show what fills the window" },
    { name = "export", description = "Write the conversation to a file", details = "Write the conversation to a file" },
    { name = "undo", description = "Take back the last edits", details = "Take back the last edits" },
  },
  acp_providers = {
    ["acp-agent"] = {
      command = "/path/to/acp-agent",
      args = {},
      env = { HOME = os.getenv("HOME"), LANG = "C.UTF-8", ANTHROPIC_API_KEY = os.getenv("ANTHROPIC_API_KEY") },
    },
  },
})
