"""jaxroll: adaptive rollouts for RL post-training of language models."""
