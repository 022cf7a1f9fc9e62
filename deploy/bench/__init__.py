"""`pagegate bench`: what pagegate costs on this machine, beside what people do without it, in one run (O4).

`usual.py` is the opponent, `measure.py` the arithmetic, `stages.py` what is measured of pagegate, `run.py` the order
and the table.
Ratios count, not milliseconds: both sides run in turns, so a busy machine slows both.
"""
