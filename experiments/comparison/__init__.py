"""Pieces of `experiments.compare`.

problems  what is learned: task, policy, first parameters, held-out quality
cells     one recipe on one seed until the budget is spent, kept in a file
analysis  what the cells of all methods and seeds say together
pages     tables and figures of that
"""
