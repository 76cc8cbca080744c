"""What `experiments.evaluate` is made of.

subjects   a model by its path or name, and the task it is to do
sampling   k rows for each prompt, some prompts at a time
measures   from rows to the numbers of summary.json
pages      report.html
"""
