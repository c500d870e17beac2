;;; acp-agent.el --- acp-agent in agent-shell  -*- lexical-binding: t; -*-
;; For agent-shell (Emacs 29.1 or newer): load it after agent-shell, then M-x agent-shell-acp-agent.

(with-eval-after-load 'agent-shell
  (add-to-list 'agent-shell-agent-configs
    (agent-shell-make-agent-config
     :identifier 'acp-agent :mode-line-name "acp-agent" :buffer-name "acp-agent"
     :shell-prompt "acp-agent> " :shell-prompt-regexp "acp-agent> "
     :client-maker (lambda (buffer)
                     (agent-shell--make-acp-client
                      :command "/path/to/acp-agent" :command-params '()
                      :environment-variables (agent-shell-make-environment-variables :inherit-env t)
                      :context-buffer buffer)))))

(defun agent-shell-acp-agent ()
  "Start a shell with acp-agent."
  (interactive)
  (require 'agent-shell)
  (agent-shell--dwim
   :config (seq-find (lambda (config) (eq (map-elt config :identifier) 'acp-agent)) agent-shell-agent-configs)
   :new-shell t))
;;; acp-agent.el ends here
