UPDATE {locks} SET used_us = clock.us, owner = NULL, label = NULL, actor = NULL, ask_number = NULL, ask_by = NULL, ask_note = NULL
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS us) AS clock
WHERE name = $1 AND owner = $2 AND until_us > clock.us AND NOT busy AND newest_token >= $3
RETURNING name
