# Pitchfork takes its address from a file alone. A line of its log for each start would only be in the way.
worker_processes {workers}
listen '127.0.0.1:{port}'
