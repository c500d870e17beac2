"""The APIs that model servers speak: one adapter each, and the connection over the provider's SDK that carries them."""
