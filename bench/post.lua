-- wrk -s post.lua URL -- BODY_FILE KEY [HEADER]: post the file with the headers of OpenAI's Python SDK, report one line
-- of JSON.  A HEADER named in addition has another value in each request, in the shape of a traceparent.

function init(args)
   local file = io.open(args[1], "rb")
   wrk.method = "POST"
   wrk.body = file:read("*a")
   file:close()
   wrk.headers["Authorization"] = "Bearer " .. args[2]
   wrk.headers["Accept"] = "application/json"
   wrk.headers["Content-Type"] = "application/json"
   wrk.headers["User-Agent"] = "OpenAI/Python 3.54.0"
   wrk.headers["X-Stainless-Arch"] = "x64"
   wrk.headers["X-Stainless-Async"] = "async:asyncio"
   wrk.headers["X-Stainless-Lang"] = "python"
   wrk.headers["X-Stainless-OS"] = "Linux"
   wrk.headers["X-Stainless-Package-Version"] = "3.54.0"
   wrk.headers["X-Stainless-Retry-Count"] = "0"
   wrk.headers["X-Stainless-Runtime"] = "CPython"
   wrk.headers["X-Stainless-Runtime-Version"] = "3.11.2"
   if args[3] then
      local number = 0
      request = function()
         number = number + 1
         wrk.headers[args[3]] = string.format("00-%032x-%016x-01", number, number)
         return wrk.format()
      end
   end
end

function done(summary, latency, requests)
   local e = summary.errors
   io.write(string.format(
      'JSON {"requests":%d,"seconds":%.6f,"failed":%d,"p50_us":%d,"p99_us":%d}\n',
      summary.requests, summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
      latency:percentile(50), latency:percentile(99)))
end
