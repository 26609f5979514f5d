DELETE FROM records WHERE until <= :clock
