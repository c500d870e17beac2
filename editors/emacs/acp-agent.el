;;; acp-agent.el --- acp-agent in agent-shell  -*- lexical-binding: t; -*-
;; For agent-shell 0.60.2 or newer: load it after agent-shell, then M-x agent-shell-acp-agent.

(defun agent-shell-acp-agent-make-config ()
  "Make the entry for acp-agent, as `agent-shell-agent-configs' takes it."
  (agent-shell-make-agent-config
   :identifier 'acp-agent :mode-line-name "acp-agent" :buffer-name "acp-agent"
   :shell-prompt "acp-agent> " :shell-prompt-regexp "acp-agent> "
   :client-maker (lambda (buffer)
                   (agent-shell--make-acp-client
                    :command "/path/to/acp-agent" :command-params '()
                    :environment-variables (agent-shell-make-environment-variables :inherit-env t)
                    :context-buffer buffer))))

(with-eval-after-load 'agent-shell
  ;; Where it is a function, that function says which agents M-x agent-shell offers.
  (unless (functionp agent-shell-agent-configs)
    (add-to-list 'agent-shell-agent-configs #'agent-shell-acp-agent-make-config)))

(defun agent-shell-acp-agent ()
  "Start a shell with acp-agent."
  (interactive)
  (require 'agent-shell)
  (agent-shell--dwim :config (agent-shell-acp-agent-make-config) :new-shell t))
;;; acp-agent.el ends here
