"""One turn: a prompt is resolved, the model is asked, its tools are run, until it has answered."""
