# Mojolicious applications from Debian's package: its examples, and what `mojo generate app` makes, to which only the
# routes for an upload and a download are added.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Agent;
use Howdah::Test::Command qw(run_command);
use Howdah::Test::Server;
use Test::More;

eval { require Mojolicious; 1 } or plan skip_all => 'Mojolicious is not installed';
my $examples = '/usr/share/doc/libmojolicious-perl/examples';

subtest 'generated application' => sub {
    my $mojo = (grep { -x } map { "$_/mojo" } split /:/, $ENV{PATH})[0] or plan skip_all => 'no mojo command';
    my $dir  = File::Temp->newdir;
    my ($made, undef, $trouble) = run_command('sh', '-c', "cd $dir && $^X $mojo generate app Caravan");
    is $made, 0 or diag $trouble;
    my $server = Howdah::Test::Server->start(app => <<"PSGI", options => ['--workers', 2]);
    use Mojo::Server; use Digest::MD5 'md5_hex';
    my \$app = Mojo::Server->new->load_app('$dir/caravan/script/caravan');
    \$app->max_request_size(64 << 20);
    \$app->routes->post('/upload' => sub {
        my \$c = shift;
        my \$file = \$c->param('file');
        \$c->render(json => {md5 => md5_hex(\$file->slurp), name => \$file->filename, note => \$c->param('note')});
    });
    \$app->routes->get('/download' => sub {
        my \$c = shift;
        my \$left = 20;
        my \$next; \$next = sub { my \$c = shift; \$left-- ? \$c->write_chunk('m' x (1 << 20), \$next) : \$c->write_chunk('') };
        \$c->\$next;
    });
    \$app->start('psgi');
PSGI
    my $agent = Howdah::Test::Agent->new($server->url);
    like $agent->get('/')->decoded_content, qr/Welcome to the Mojolicious real-time web framework/, 'template by LWP';
    my ($status, $body) = $agent->curl('/');
    like "$status $body", qr/^200 .*<!DOCTYPE html>.*Welcome/s, 'template by curl';
    like + ($agent->curl('/index.html'))[1], qr/static document/, 'static file';
    is + ($agent->curl('/missing'))[0], 404;

    my ($file, $md5) = Howdah::Test::Agent->large_file(20 << 20);
    my $answer = $agent->post('/upload', [note => 'by LWP', file => ["$file"]], 'Content-Type' => 'form-data');
    like $answer->content, qr/"md5":"$md5".*"note":"by LWP"/, '20 MiB by LWP';
    like + ($agent->curl('/upload', '-F', 'note=by curl', '-F', "file=\@$file"))[1], qr/"md5":"$md5".*"by curl"/,
        'by curl';
    like + ($agent->curl('/upload', '-F', 'note=chunked', '-F', "file=\@$file", '-H', 'Transfer-Encoding: chunked'))[1],
        qr/"md5":"$md5".*"chunked"/, 'by curl in chunks';

    is md5_hex($agent->get('/download')->content), md5_hex('m' x (20 << 20)), 'streamed download by LWP';
    is md5_hex(($agent->curl('/download'))[1]), md5_hex('m' x (20 << 20)), 'by curl';
    is md5_hex(($agent->curl('/download', '--http1.0'))[1]), md5_hex('m' x (20 << 20)), 'by HTTP/1.0';
};

subtest 'login: form post, session and redirect' => sub {
    plan skip_all => "no $examples/login" if !-e "$examples/login/script/login_app";
    my $server = Howdah::Test::Server->start(file => "$examples/login/script/login_app");
    my $agent  = Howdah::Test::Agent->new($server->url);
    like $agent->get('/')->content, qr/<form action="\/">.*name="user"/s, 'form';
    is $agent->get('/protected')->code, 302, 'closed to strangers';
    like $agent->post('/', [user => 'sebastian', pass => 'wrong'])->content, qr/Wrong name or password/, 'refused';
    my $answer = $agent->post('/', [user => 'sebastian', pass => 'secr3t']);
    is $answer->code, 302, 'accepted';
    like $answer->header('Location'), qr{/protected$};
    like $agent->get('/protected')->content, qr/Thanks for logging in.*Welcome sebastian/s, 'and remembered';
    my ($status, $body) = $agent->curl('/', '-d', 'user=sebastian&pass=secr3t', '-L', '-c', "${\$server->dir}/jar");
    like "$status $body", qr/^200 .*Welcome sebastian/s, 'by curl';
};

subtest 'responses: whole, streamed, chunked, empty, failed' => sub {
    plan skip_all => "no $examples/responses.pl" if !-e "$examples/responses.pl";
    my $server   = Howdah::Test::Server->start(file => "$examples/responses.pl", options => ['--workers', 1]);
    my $agent    = Howdah::Test::Agent->new($server->url);
    my @expected = ([1, 200, 'Hello World!'], [2, 200, 'Hello World!'], [3, 200, 'Hello World!'], [4, 204, '']);
    for my $case (@expected) {
        my ($number, $status, $body) = @$case;
        my $answer = $agent->get("/res$number");
        is join(' ', $answer->code, $answer->content), "$status $body", "/res$number by LWP";
        is join(' ', $agent->curl("/res$number")), "$status $body", 'by curl';
    }
    is $agent->get('/res5')->code, 500;
};

# As docs/coming-from.md says: Mojolicious runs no event loop under PSGI.
subtest 'what waits for the event loop' => sub {
    my $server = Howdah::Test::Server->start(app => <<'PSGI');
use Mojolicious::Lite;
use Mojo::Promise;
get '/later' => sub { my $c = shift; $c->render_later; Mojo::IOLoop->next_tick(sub { $c->render(text => 'late') }) };
get '/promise' => sub { my $c = shift; $c->render_later; Mojo::Promise->timer(0)->then(sub { $c->render(text => 'kept') }) };
get '/waits' => sub { my $c = shift; Mojo::Promise->timer(0)->then(sub { $c->render(text => 'kept') })->wait };
websocket '/socket' => sub { shift->on(message => sub { }) };
app->start;
PSGI
    my $agent = Howdah::Test::Agent->new($server->url);
    is $agent->get('/waits')->content, 'kept', 'a promise that is waited for';
    is $agent->get("/$_")->code, 404, $_ for qw(later promise);
    my @handshake = map { ('-H', $_) } 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
        'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
    is + ($agent->curl('/socket', @handshake))[0], 404, 'a WebSocket';
};

done_testing;
