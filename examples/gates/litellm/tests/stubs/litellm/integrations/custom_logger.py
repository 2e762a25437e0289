"""What the gate uses of LiteLLM."""


class CustomLogger:
    pass
