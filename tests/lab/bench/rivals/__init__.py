"""The same work by balancewatch, bytewax, quixstreams and a plain loop: a process each, one interface (`work.py`).

Send latencies of one topic, a FaultItem a broker and client by the rule of `udfs/`, a Delta row a flip.
"""
