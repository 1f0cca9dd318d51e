# A client that leaves during a stream: write dies with an object that says so, which is no error of the application.
# With --abort-on-disconnect a worker that is not writing is interrupted, too.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Socket qw(SOL_SOCKET SO_LINGER);
use Test::More;
use Time::HiRes qw(time);

my $app = <<'PSGI';
sub nap { my $end = time + $_[0]; select undef, undef, undef, 0.05 while time < $end }
sub events { my $w = shift; while (1) { $w->write("data: x\n\n"); select undef, undef, undef, 0.05 } }
sub note { print STDERR "seen $_[0]\n"; return }
my %do = (
    '/uncaught' => sub { sub { events(shift->([200, []])) } },
    '/caught'   => sub {
        sub {
            my $w = shift->([200, []]);
            eval { events($w) };
            note(ref($@) . " $@");
            note('again') if !eval { $w->write('more'); 1 } && ref $@ eq 'Howdah::ClientGone';
            $w->close;
        };
    },
    '/large'    => sub { sub { my $w = shift->([200, []]); $w->write('x' x 1_000_000) for 1 .. 1000; note('all') } },
    '/before'   => sub { note('begun'); nap(20); note('end of before'); [200, [], ['late']] },
    '/between'  => sub { sub { my $w = shift->([200, []]); $w->write('x'); note('begun'); nap(20); note('end of between') } },
    '/short'    => sub { select undef, undef, undef, 0.01; [200, [], ['short']] },
    '/cleanup'  => sub {
        my $env = shift;
        $env->{'psgix.cleanup.handlers'} = [sub { note('cleaning'); nap(1); note('cleaned') }];
        [200, [], ['ok']];
    },
);
sub {
    my $env = shift;
    push @{$env->{'psgix.cleanup.handlers'}}, sub { note("cleanup of $_[0]{PATH_INFO}") };
    my $do = $do{$env->{PATH_INFO}} or return [200, [], [$$]];
    return $do->($env);
};
PSGI

sub ask { return Howdah::Test::Client->asking(@_) }

sub leave { my $client = shift; sysread $client->socket, my $some, 100; return close $client->socket }
sub pid { return ask($_[0], '/')->response->{body} }

subtest 'write dies once the client is gone' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1]);
    my $pid    = pid($server);
    for my $path (qw(/uncaught /caught /large)) {
        leave(ask($server, $path));
        ok $server->wait_for_log(qr{seen cleanup of $path$}m), "$path: the worker comes loose, and cleans up";
    }
    my $log = $server->log;
    like $log, qr/seen Howdah::ClientGone the client has left/, 'an object that says so as a string, too';
    like $log, qr/seen again$/m, '... each time';
    unlike $log, qr/seen all/, 'also where the response does not fit any buffer';
    like $log, qr{ INFO +worker 0 pid $pid request \S+ GET $_: the client has left}, "$_: uncaught it is news"
        for qw(/uncaught /large);
    unlike $log, qr/ERROR/, '... and no error';
    is pid($server), $pid, 'the worker serves on';
};

subtest 'an application of the kit' => sub {
    eval { require Plack::Request; 1 } or plan skip_all => 'Plack is not installed';
    my $server = Howdah::Test::Server->start(app => <<'PSGI', options => ['--workers', 1, '--abort-on-disconnect']);
use Howdah::Kit;
Howdah::Kit->psgi_app(sub {
    print STDERR "begun\n" if $_[0]->path ne '/';
    select undef, undef, undef, 0.05 for 1 .. ($_[0]->path eq '/' ? 0 : 400);
    return $_[0]->text($$);
}, development => 0);
PSGI
    my $client = ask($server, '/waits');
    ok $server->wait_for_log(qr/begun/);
    close $client->socket;
    ok $server->wait_for_log(qr{ INFO +worker 0 pid \d+ request \S+ GET /waits: the client has left}),
        'is interrupted as any';
    like pid($server), qr/^\d+$/;
    unlike $server->log, qr{GET /waits: GET /waits:}, '... and takes it for no fault of its own';
};

subtest 'a client that leaves before its protocol is switched' => sub {
    my ($operator, $dir) = (Howdah::Test::Operator->new, File::Temp->newdir);
    my $server = Howdah::Test::Server->start(
        app => "my \$sign = '$dir/sign';" . <<'PSGI', options => ['--workers', 1, $operator->options]);
        sub { -e $sign or select undef, undef, undef, 0.05 for 1 .. 400; [101, [Upgrade => 'chat'], []] }
PSGI
    my $client = Howdah::Test::Client->new($server);
    $client->write("GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n");
    ok $server->wait_until(sub { $operator->status->{workers}{list}[0]{state} eq 'busy' }), 'its request runs';
    setsockopt $client->socket, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0;
    close $client->socket;
    ok $server->wait_until(sub { !$operator->status->{connections}{open} }), 'it is gone';
    open my $sign, '>', "$dir/sign" or die $!;
    ok $server->wait_for_log(qr{INFO .* GET /chat: the client has left}), 'which is news';
    unlike $server->log, qr/ERROR/, '... and no error of the application';
};

subtest '--abort-on-disconnect' => sub {
    my $server = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--abort-on-disconnect']);
    my $pid    = pid($server);
    for my $path (qw(/before /between)) {
        my $client = ask($server, $path);
        ok $server->wait_for_log(qr{GET $path: seen begun}), $path;
        close $client->socket;
        ok $server->wait_for_log(qr{seen cleanup of $path$}m, 10), '... is interrupted when its client leaves';
        unlike $server->log, qr/seen end of/, '... where it is';
    }
    ok $server->wait_for_log(qr{INFO .* GET /before: the client has left}), 'which is news';
    unlike $server->log, qr/ERROR/, '... and no error';
    my $client = ask($server, '/cleanup');
    is $client->response->{body}, 'ok';
    close $client->socket;
    ok $server->wait_for_log(qr/seen cleaned/), 'what runs after the response is not interrupted';
    is pid($server), $pid, 'the worker serves on';
};

subtest 'a module that is loaded when the client leaves' => sub {
    my $dir  = File::Temp->newdir;
    my $text = 'package Slow; print STDERR "seen loading\n"; select undef, undef, undef, 0.1 for 1 .. 10; 1;';
    open my $out, '>', "$dir/Slow.pm" or die $!;
    print {$out} $text;
    close $out or die $!;
    my $server = Howdah::Test::Server->start(
        app     => 'sub { require Slow; [200, [], [$$]] }',
        options => ['--workers', 1, '--abort-on-disconnect', '-I', "$dir"],
    );
    my $client = ask($server, '/');
    ok $server->wait_for_log(qr{seen loading$}m);
    close $client->socket;
    my ($worker) = $server->workers;
    is pid($server), $worker, 'is loaded, and is there for the next request';
    unlike $server->log, qr/ERROR/, '... without an error';
};

subtest 'an interruption that comes late is nobody else\'s' => sub {
    my @options = ('--workers', 2, '--front-threads', 2, '--abort-on-disconnect');
    my $server  = Howdah::Test::Server->start(app => $app, options => \@options);
    my @wrong;
    for my $round (1 .. 40) {
        my @leaving = map { ask($server, '/short') } 1 .. 5;
        my @staying = map { ask($server, '/short') } 1 .. 5;
        close $_->socket for @leaving;
        push @wrong, grep { $_->{status} != 200 || $_->{body} ne 'short' } map { $_->response } @staying;
    }
    is_deeply \@wrong, [], '200 clients that stay among 200 that leave';
    unlike $server->log, qr/ERROR|signal handler/, 'and no error';
};

subtest 'without it a request whose client leaves runs to its end' => sub {
    my $server = Howdah::Test::Server->start(app => $app =~ s/nap\(20\)/nap(1)/gr, options => ['--workers', 1]);
    for my $path (qw(/before /between)) {
        my $client = ask($server, $path);
        $server->wait_for_log(qr{GET $path: seen begun});
        close $client->socket;
        my ($name) = $path =~ /(\w+)/;
        ok $server->wait_for_log(qr{seen end of $name$}m), $path;
    }
};

done_testing;
