# Howdah::Kit: what a handler is given, and what becomes of what it returns.
use strict;
use utf8;
use warnings;

use Encode qw(decode encode);
use HTTP::Request::Common qw(GET HEAD POST PUT);
use Howdah::Kit;
use Plack::Builder;
use Plack::Test;
use Test::More;

eval { require Router::Simple; 1 } or plan skip_all => 'Router::Simple is not installed';

package Notes {    ## no critic (RequireFilenameMatchesPackage)
    our @ISA = ('Howdah::Kit');

    sub routes {
        return (
            'GET /'                   => 'index',
            'GET /note/:id'           => sub { my ($self, $c) = @_; return $c->text('note ' . $c->param('id')) },
            'GET /year/{year:[0-9]+}' => sub { my ($self, $c) = @_; return $c->text('year ' . $c->param('year')) },
            'GET /files/*.*'          => sub { my ($self, $c) = @_; return $c->text(join ' ', $c->params('splat')) },
            'POST|PUT /note'          => sub { my ($self, $c) = @_; return $c->json($c->json_body) },
            'POST /form'              => sub { my ($self, $c) = @_; return $c->text(join ',', $c->params('é')) },
            'GET /über/:name'         => sub { my ($self, $c) = @_; return $c->text($c->path . $c->param('name')) },
            '/person'                 => sub {
                my ($self, $c) = @_;
                return $c->json({name => $c->param('name'), admin => 0});
            },
            '/any'    => sub { my ($self, $c) = @_; return $c->text($c->method) },
            '/go'     => sub { my ($self, $c) = @_; return $c->redirect($c->param('to'), 303) },
            '/raw'    => sub { return [201, ['X-Raw' => 1], ['raw']] },
            '/stream' => sub {
                return sub { $_[0]->([200, [], ['streamed']]) }
            },
            '/deep'     => sub { my ($self, $c) = @_; die $c->error(403, 'not you') },
            '/none'     => sub { my ($self, $c) = @_; return $c->text('', 204) },
            '/die'      => sub { die "no <b>luck</b>\n" },
            '/nothing'  => sub { return },
            '/hash'     => sub { return {a => 1} },
            '/session'  => sub { my ($self, $c) = @_; return $c->text($c->session->{n}) },
            '/template' => sub { my ($self, $c) = @_; return $c->render('x', {n => 1}) },
            '/status'   => sub { my ($self, $c) = @_; return $c->text('x', 'OK') },
            '/json'     => sub { my ($self, $c) = @_; return $c->json({}, 199) },
            '/error'    => sub { my ($self, $c) = @_; return $c->error },
        );
    }
    sub index { my ($self, $c) = @_; return "<h1>Zoë</h1>" }    ## no critic (ProhibitBuiltinHomonyms)
}

# (status, body in characters, header) of a request.
sub ask {
    my ($app, $request, $field) = @_;
    my $errors = '';
    open my $to, '>', \$errors or die $!;
    my $outer    = sub { my $env = shift; $env->{'psgi.errors'} = $to; return $app->($env) };
    my $response = Plack::Test->create($outer)->request($request);
    return ($response->code, decode('UTF-8', $response->content), $field ? $response->header($field) : $errors);
}

my $app  = Notes->psgi_app;
my @json = ('Content-Type' => 'application/json');
my @form = ('Content-Type' => 'multipart/form-data; boundary=x');
my $bad  = "The body of the request is not what its Content-Type says.\n";

# What it is, request, status, body.
for my $case (
    ['a text is a page', GET('/'), 200, '<h1>Zoë</h1>'],
    ['a capture, decoded', GET('/note/%C3%A9t%C3%A9'), 200, 'note été'],
    ['a capture before the query', GET('/note/1?id=2'), 200, 'note 1'],
    ['a pattern', GET('/year/2026'), 200, 'year 2026'],
    ['that does not match', GET('/year/now'), 404, "Not Found\n"],
    ['stars', GET('/files/a/b.txt'), 200, 'a/b txt'],
    ['a route with other letters', GET('/%C3%BCber/x'), 200, '/über/xx'],
    ['HEAD is a GET', HEAD('/note/1'), 200, 'note 1'],
    ['any method', PUT('/any'), 200, 'PUT'],
    [
        'names of parameters, decoded', POST('/form', [encode('UTF-8', 'é') => 'a', encode('UTF-8', 'é') => 'b']), 200,
        'a,b'
    ],
    ['a capture that is not UTF-8', GET('/note/%FF'), 400, "What the request says for 'id' is not UTF-8.\n"],
    [
        'JSON in and out', POST('/note', @json, Content => encode('UTF-8', '{"b":"é","a":[1]}')), 200,
        '{"a":[1],"b":"é"}'
    ],
    ['a parameter that is not there, in a list', GET('/person'), 200, '{"admin":0,"name":null}'],
    ['what is no JSON', PUT('/note', @json, Content => '{'), 400, "The body of the request is not JSON in UTF-8.\n"],
    ['a form without a boundary', POST('/form', 'Content-Type' => 'multipart/form-data', Content => 'x'), 400, $bad],
    ['a form without an end', POST('/form', @form, Content => "--x\r\nContent-Dis"), 400, $bad],
    [
        'a field without a name',
        POST('/form', @form, Content => "--x\r\nContent-Type: text/plain\r\n\r\na\r\n--x--\r\n"), 400, $bad
    ],
    ['a wrong method', GET('/note'), 405, "Method Not Allowed\n"],
    ['PSGI itself', GET('/raw'), 201, 'raw'],
    ['PSGI as a stream', GET('/stream'), 200, 'streamed'],
    ['a response that was thrown', GET('/deep'), 403, "not you\n"],
    ['no content', GET('/none'), 204, ''],
    ['a redirect to a line break', GET('/go?to=/%0d%0aX:1'), 500, "Internal Server Error\n"],
    )
{
    my ($what, $request, $status, $body) = @$case;
    my @answer = ask($app, $request);
    is_deeply [@answer[0, 1]], [$status, $body], $what or diag $answer[2];
}

is + (ask($app, GET('/note'), 'Allow'))[2], 'POST, PUT', 'the methods that there are';
is + (ask($app, GET('/note/1'), 'Content-Type'))[2], 'text/plain; charset=utf-8';
is + (ask($app, GET('/'), 'Content-Length'))[2], 13, 'a length, in bytes';
is + (ask($app, GET('/none'), 'Content-Length'))[2], undef, 'none where there is no body';

subtest 'redirects are below where the application is' => sub {
    my $mounted = builder { mount '/cgi-bin/app' => $app };
    my %goes    = (
        '/'               => '/cgi-bin/app/',
        '/note/%C3%A9'    => '/cgi-bin/app/note/%C3%A9',
        '/%5Cevil'        => '/cgi-bin/app/%5Cevil',
        '/a%20%22b%3Cc'   => '/cgi-bin/app/a%20%22b%3Cc',
        '/100%25%3Fq=%23' => '/cgi-bin/app/100%?q=#',
        'http://x/'       => 'http://x/',
        '//x'             => '//x',
    );
    is + (ask($mounted, GET("/cgi-bin/app/go?to=$_"), 'Location'))[2], $goes{$_}, $_ for sort keys %goes;
    is + (ask($mounted, GET('/cgi-bin/app')))[0], 200, 'an empty path is the first page';
};

subtest 'errors of the application: 500, and the reason in the log alone' => sub {
    my %says = (
        '/die'      => qr{^GET /die: no <b>luck</b>$}m,
        '/nothing'  => qr{the handler of GET /nothing returned nothing: return a text},
        '/hash'     => qr{returned a reference to HASH: for JSON, return \$c->json},
        '/session'  => qr{there is no session: build the application with session => .* at \S+kit\.t line \d+},
        '/template' => qr{nothing to render templates: build with templates => ENGINE.* at \S+kit\.t line \d+},
        '/status'   => qr{a status is a number from 200 to 599, not 'OK'},
        '/json'     => qr{a status is a number from 200 to 599, not '199'},
        '/error'    => qr{an error needs a status: .* at \S+kit\.t line \d+},
    );
    for my $path (sort keys %says) {
        my ($status, $body, $errors) = ask($app, GET($path));
        is "$status $body", "500 Internal Server Error\n", $path;
        like $errors, $says{$path};
    }
};

subtest 'in development: a page with a trace, quoted' => sub {
    local $ENV{PLACK_ENV} = 'development';
    for my $in (Notes->psgi_app, Notes->psgi_app(development => 1)) {
        my ($status, $body, $errors) = ask($in, GET('/die', Accept => 'text/html'));
        is $status, 500;
        like $body, qr/no &lt;b&gt;luck/;
        like $errors, qr/no <b>luck/;
        is + (ask($in, GET('/deep')))[0], 403, 'a response that was thrown is none';
    }
    is + (ask(Notes->psgi_app(development => 0), GET('/die')))[1], "Internal Server Error\n";
};

done_testing;
