-- For wrk: an optional request body from a file, several requests in one write, and the result as one line of JSON.
-- BENCH_BODY names the file, BENCH_TYPE its media type; an argument says how many requests go out together.

local file = os.getenv("BENCH_BODY")
if file then
  local handle = assert(io.open(file, "rb"))
  wrk.method = "POST"
  wrk.body = handle:read("*a")
  wrk.headers["Content-Type"] = os.getenv("BENCH_TYPE") or "application/octet-stream"
  handle:close()
end

function init(arguments)
  local together = wrk.format():rep(tonumber(arguments[1] or 1))
  request = function()
    return together
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\nBENCH {"requests":%d,"seconds":%f,"p50":%f,"p99":%f,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
