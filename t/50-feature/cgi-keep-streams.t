# What a kept CGI script prints is sent as it comes where that is asked for, waits for its client, and ends with it; what
# children print is in its place; bodies are of any size.
use strict;
use warnings;
use lib 't/lib';

use Digest::MD5 qw(md5_hex);
use Howdah::Test::Client;
use Howdah::Test::Server;
use IO::Select ();
use Test::More;
use Time::HiRes qw(sleep time);

my $app = <<'PSGI';
use Howdah::CGI::Keep;
Howdah::CGI::Keep->new(root => $ENV{CGI_SCRIPTS}, mount => '/cgi')->to_app;
PSGI

my $dir = File::Temp->newdir;

sub script {
    my ($name, $text) = @_;
    open my $out, '>:raw', "$dir/$name" or die $!;
    print {$out} "#!/usr/bin/perl\n$text";
    close $out or die $!;
    return chmod 0755, "$dir/$name";
}

script('parts.cgi', <<'PERL');
$| = 1;
print "Content-Type: text/plain\n\none\n";
sleep 1;
print "two\n";
sleep 1;
system 'echo three';
PERL
script('alarm.cgi', <<'PERL');
$| = 1;
print "Content-Type: text/plain\n\n";
eval {
    local $SIG{ALRM} = sub { die "late\n" };
    alarm 1;
    print 'x' x 1_000_000 and $whole++ for 1 .. 20;
};
print STDERR "the alarm: $@";
print "$whole and one";
PERL
script('error.cgi', <<'PERL');
$| = 1;
eval { die "on purpose\n" };
print "Content-Type: text/plain\n\n";
print "it died $@";
PERL
script('endless.cgi', <<'PERL');
print "Content-Type: text/plain\n\n";
eval { while (1) { print 'x' x 1000, "\n"; $lines++ } };
print STDERR "this is never reached\n";
END { print STDERR "it ends, after $lines lines\n" }
PERL
script('sum.cgi', <<'PERL');
use Digest::MD5;
my $sum = Digest::MD5->new->addfile(*STDIN)->hexdigest;
open my $status, '<', "/proc/$$/status";
my ($peak) = map { /^VmHWM:\s+(\d+)/ } <$status>;
print "Content-Type: text/plain\n\n$ENV{CONTENT_LENGTH} $sum $peak\n";
PERL
script('many.cgi', <<'PERL');
print "Content-Type: text/plain\n\n";
for (1 .. 20) { print "$_\n"; system 'head -c 100000 /dev/zero | tr "\\0" x' }
print "end\n";
PERL
script('filter.cgi', <<'PERL');
print "Content-Type: text/plain\n\n";
open STDOUT, '|-', 'sleep 1; tr a-z A-Z';
print "through a program\n";
PERL
script('chunks.cgi', <<'PERL');
print "Content-Type: text/plain\nTransfer-Encoding: chunked\n\nno chunks\n";
PERL

my $server = Howdah::Test::Server->start(
    app     => $app,
    env     => {CGI_SCRIPTS => "$dir"},
    options => ['--workers', 2],
);

sub get { return "GET /cgi/$_[0] HTTP/1.1\r\nHost: x\r\n\r\n" }

subtest 'with $| set output is sent as it comes' => sub {
    my $client = Howdah::Test::Client->new($server);
    my $since  = time;
    $client->write(get('parts.cgi'));
    ok +IO::Select->new($client->socket)->can_read(10), 'the head comes';
    cmp_ok time - $since, '<', 1, '... before the script has ended';
    my $response = $client->response;
    is $response->{body}, "one\ntwo\nthree\n";
    cmp_ok scalar @{$response->{chunks}}, '>=', 4, '... and the parts apart';
};

is +Howdah::Test::Client->ask($server, get('error.cgi'))->{body}, "it died on purpose\n",
    'what a script has died of stays where it prints meanwhile';

subtest 'a handler that the application around the scripts has set' => sub {
    my $around = 'use Howdah; Howdah->after_fork(sub { $SIG{USR1} = sub { print STDERR "heard\n" } });';
    my $server =
        Howdah::Test::Server->start(app => $around . $app, env => {CGI_SCRIPTS => $dir}, options => ['--workers', 1]);
    Howdah::Test::Client->ask($server, get('error.cgi'));
    kill USR1 => $server->workers;
    ok $server->wait_for_log(qr/: heard$/m), 'is called in a worker that has run scripts, too';
};

subtest 'a client that leaves ends the script, END blocks and all' => sub {
    my $client = Howdah::Test::Client->new($server);
    $client->write(get('endless.cgi'));
    sysread $client->socket, my $some, 65_536;
    sleep 0.5;
    close $client->socket;
    ok $server->wait_for_log(qr/it ends, after (\d+) lines/), 'it ends';
    unlike $server->log, qr/never reached/, '... whatever evals it has';
};

subtest 'an alarm whose handler dies while the client is waited for comes behind what is being printed' => sub {
    my $server = Howdah::Test::Server->start(
        app     => $app,
        env     => {CGI_SCRIPTS => $dir},
        options => ['--workers', 1, qw(--response-buffer 64k --response-spool 0)]
    );
    my $client = Howdah::Test::Client->new($server);
    $client->write(get('alarm.cgi'));
    sleep 2;
    my ($printed) = $client->response->{body} =~ /^(x+)\d* and one$/;
    my $length = length($printed // '');
    ok $length && $length % 1_000_000 == 0, 'what is printed behind it is behind the whole of that' or diag $length;
    ok $server->wait_for_log(qr/the alarm: late/), 'the script goes on';
};

subtest 'a body is a file from some size on' => sub {
    my $body     = join '', map { $_ x 1024 } 0 .. 40_000;
    my $length   = length $body;
    my $response = Howdah::Test::Client->ask(
        $server,
        "POST /cgi/sum.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: $length\r\n\r\n$body"
    );
    my ($said, $sum, $peak) = split ' ', $response->{body};
    is "$said $sum", "$length " . md5_hex($body);
    cmp_ok $peak, '<', 100_000, "... which takes no memory: $peak KiB at most";
};

subtest 'much output of programs, in its order' => sub {
    my $response = Howdah::Test::Client->ask($server, get('many.cgi'));
    is $response->{error}, '';
    is $response->{body}, join('', map { "$_\n" . 'x' x 100_000 } 1 .. 20) . "end\n";
};

subtest 'a program that STDOUT leads to is waited for, as Apache waits for its output' => sub {
    is +Howdah::Test::Client->ask($server, get('filter.cgi'))->{body}, "THROUGH A PROGRAM\n", "request $_" for 1, 2;
};

subtest 'a body that is not what its Transfer-Encoding says' => sub {
    is +Howdah::Test::Client->ask($server, get('chunks.cgi'))->{status}, 500;
    ok $server->wait_for_log(qr{ERROR .* GET /cgi/chunks\.cgi: .*chunked, but its body is not in chunks}),
        'has a reason in the log';
};

is $server->stop, 0;
done_testing;
