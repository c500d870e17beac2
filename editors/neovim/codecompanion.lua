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
          -- What a call came to stands behind it; of a compaction, the tokens and what it cost.
          opts = { vision = true, verbose_output = true },
          commands = { default = { "/path/to/acp-agent" } },
          defaults = { mcpServers = {}, timeout = 20000 },
          env = {},
          parameters = {
            protocolVersion = 1,
            -- CodeCompanion would read the disk all the same, and write over what is unsaved, with an empty line behind it.
            clientCapabilities = { fs = { readTextFile = false, writeTextFile = false } },
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
