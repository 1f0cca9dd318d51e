# Plack::Handler::Howdah turns what plackup hands over into arguments for the howdah command.
use strict;
use warnings;

use Plack::Handler::Howdah;
use Test::More;

sub arguments { return join ' ', Plack::Handler::Howdah->new(@_)->arguments }

my @cases = (
    [[], '--listen :5000', 'every address, port 5000'],
    [[port        => 8080], '--listen :8080', 'port'],
    [[host        => '127.0.0.1', port => 80], '--listen 127.0.0.1:80', 'host and port'],
    [[host        => '::1', port       => 80], '--listen [::1]:80', 'an IPv6 host'],
    [[socket      => '/run/a.sock'], '--listen /run/a.sock', 'socket'],
    [[socket      => 'a.sock'], '--listen unix:a.sock', 'socket without a slash'],
    [[listen      => [':1', '/x']], '--listen :1 --listen /x', 'listen, several'],
    [[listen      => [':1'], port => 1, host => undef, socket => undef], '--listen :1', 'as plackup -l gives it'],
    [[max_workers => 3], '--listen :5000 --workers=3', 'max_workers'],
    [[workers     => 3], '--listen :5000 --workers=3', 'workers'],
    [[max_reqs_per_child => 9], '--listen :5000 --max-requests=9', 'max_reqs_per_child'],
    [[max_requests       => 9], '--listen :5000 --max-requests=9', 'max_requests'],
    [[keepalive_timeout  => 0], '--listen :5000 --keepalive-timeout=0', 'an option with dashes, value 0'],
    [[error_log          => undef], '--listen :5000', 'no value, no option'],
    [[keepalive          => ''], '--listen :5000 --disable-keepalive', 'what plackup makes of --disable-keepalive'],
    [[keepalive          => 1], '--listen :5000', 'keepalive is on anyway'],
    [[no_server_header   => 1], '--listen :5000 --no-server-header', 'a flag'],
    [[no_server_header   => 'off'], '--listen :5000', 'a flag that is off in a word'],
    [[keepalive          => 'no'], '--listen :5000 --disable-keepalive', 'a positive that is'],
    [[no_server_header   => 0], '--listen :5000', 'a flag that is off'],
    [[server_header      => 0], '--listen :5000 --no-server-header', 'a positive that is off'],
    [[request_id         => 0], '--listen :5000 --no-request-id', 'another'],
    [[preload_app        => 1], '--listen :5000 --preload-app', 'the name that Starman has'],
    [[unheard_of         => 1], '--listen :5000 --unheard-of=1', 'unknown ones are for the command to refuse'],
    [[psgi_app_builder   => sub { }], '--listen :5000 --no-preload', 'what -L Delayed gives'],
    [[psgi_app_builder   => sub { }, preload => 0], '--listen :5000 --no-preload', '... and --preload=0 with it'],
    [[preload            => 1], '--listen :5000', 'preload is on anyway'],
    [[server_ready       => sub { }, daemonize => 1], '--listen :5000', 'what the handler does itself'],
    [[listen_sock => \*STDIN, port => 80, workers => 3], '--workers=3', 'a socket that listens already counts alone'],
);
is(arguments(@{$_->[0]}), $_->[1], $_->[2]) for @cases;

is(eval { Plack::Handler::Howdah->new(preload_app => '--max-requests') }, undef, 'a swallowed option is refused');
like($@, qr/^--preload-app got the value '--max-requests': .* write --preload-app=1$/, '... with the way out');
is(eval { Plack::Handler::Howdah->new(no_server_header => 'other.psgi') }, undef, 'so is a swallowed application');
like($@, qr/^--no-server-header got the value 'other\.psgi': .* write --no-server-header=1$/, '... with the way out');
is(arguments(workers => '-1'), '--listen :5000 --workers=-1', 'a number below 0 is the command\'s to refuse');

{
    local $INC{'Plack/Runner.pm'} = 'loaded';
    my @plackup = (host => undef, port => 5000, listen => [':5000'], socket => undef);
    is(
        arguments(no_server_header => undef, @plackup), '--listen :5000 --no-server-header',
        'plackup\'s last word, a switch'
    );
    is(arguments(keepalive => undef, @plackup), '--listen :5000', '... or what is on anyway');
    is(eval { arguments(workers => undef, @plackup) }, undef, '... or an option without its value');
    like($@, qr/^--workers has no value: write --workers=VALUE$/, '... which is told');
}

for my $too_late ([preload => 0], [no_preload => 1]) {
    is(eval { arguments(@$too_late) }, undef, "$too_late->[0] cannot undo what plackup has loaded");
    like($@, qr/^--no-preload is too late: .* write -L Delayed/, '... with the way out');
}

{
    local @ENV{qw(HOWDAH_USER HOWDAH_NAME HOWDAH_FULL_DESTRUCT HOWDAH_DAEMONIZE)} = qw(nobody shop yes off);
    is(
        arguments(), '--listen :5000 --full-destruct --name=shop --user=nobody',
        'what is done here counts by its variable, too'
    );
    is(
        arguments(name => 'other'), '--listen :5000 --full-destruct --name=other --user=nobody',
        '... unless it is given'
    );
    is(Plack::Handler::Howdah->new->{user}, 'nobody', 'the zygote changes to that user');
    ok !Plack::Handler::Howdah->new->{daemonize}, 'a switch that is off';
}

done_testing;
