# /100k, /1m and /10m as in sizes.psgi; anything else is hello.
body = { '/100k' => 'x' * 102_400, '/1m' => 'x' * 1_048_576, '/10m' => 'x' * 10_485_760 }
body.default = 'Hello World'

run lambda { |env|
  page = body[env['PATH_INFO']]
  [200, { 'Content-Type' => 'text/plain', 'Content-Length' => page.bytesize.to_s }, [page]]
}
