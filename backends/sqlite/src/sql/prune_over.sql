DELETE FROM holders WHERE until_ns <= :now_ns
