-- For wrk: an optional request body from a file, and the result as one line of JSON.
-- BENCH_BODY names the file, BENCH_TYPE its media type.

local file = os.getenv("BENCH_BODY")
if file then
  local handle = assert(io.open(file, "rb"))
  wrk.method = "POST"
  wrk.body = handle:read("*a")
  wrk.headers["Content-Type"] = os.getenv("BENCH_TYPE") or "application/octet-stream"
  handle:close()
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\nBENCH {"requests":%d,"seconds":%f,"p50":%f,"p99":%f,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
