DELETE FROM waiters WHERE until_ns <= :now_ns
