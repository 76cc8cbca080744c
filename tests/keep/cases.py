"""How every keep function is called, and what its paper denies it."""

from tests.contracts import Case

CASES = {"committed": Case(), "mixed": Case(), "stopped": Case()}
