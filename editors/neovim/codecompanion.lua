-- For CodeCompanion (Neovim 0.11 or newer): put it where you set CodeCompanion up.
require("codecompanion").setup({
  adapters = {
    acp = {
      acp_agent = function()
        local helpers = require("codecompanion.adapters.acp.helpers")
        return {
          name = "acp_agent",
          formatted_name = "acp-agent",
          type = "acp",
          roles = { llm = "assistant", user = "user" },
          opts = { vision = true },
          commands = { default = { "/path/to/acp-agent" } },
          defaults = { mcpServers = {}, timeout = 20000 },
          env = {},
          parameters = {
            protocolVersion = 1,
            clientCapabilities = { fs = { readTextFile = true, writeTextFile = true } },
            clientInfo = { name = "CodeCompanion.nvim", version = "1.0.0" },
          },
          handlers = {
            setup = function() return true end,
            auth = function() return true end,
            form_messages = function(self, messages, capabilities)
              return helpers.form_messages(self, messages, capabilities)
            end,
            on_exit = function() end,
          },
        }
      end,
    },
  },
  interactions = { chat = { adapter = "acp_agent" } },
})
