# howdah leaks and heap where code is unusual: names of classes that are not ASCII, strings that are evaluated in masses, thousands of
# closures, threads.
use strict;
use warnings;
use lib 't/lib';

use Config;
use Howdah::Test::Client;
use Howdah::Test::Command qw(begin_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use JSON::PP qw(decode_json);
use Test::More;
use utf8;

sub start {
    my $app = shift;
    utf8::encode($app);
    my $operator = Howdah::Test::Operator->new;
    return (
        $operator,
        Howdah::Test::Server->start(app => $app, options => ['--workers', 1, $operator->options])
    );
}

# The report of a look while this path is asked for.
sub look {
    my ($operator, $server, $path) = @_;
    my @command = (qw(leaks --json --requests 20 --control), $operator->control);
    my ($status, $out, $err) = Howdah::Test::Traffic->during($server, [$path], @command);
    is $status, 0 or diag $err, $server->log;
    return decode_json($out);
}

subtest 'a class is called as its source calls it' => sub {
    my $app = <<'APP';
use utf8;
my @kept;
sub { push @kept, map { bless [], $_ } 'Größe', 'Привет', "one\ttab"; [200, [], []] };
APP
    my ($operator, $server) = start($app);
    my $report = look($operator, $server, '/');
    my %left   = map { $_->{class} => $_->{objects} } @{$report->{objects}};
    is_deeply [sort keys %left], ['Größe', "one\ttab", 'Привет'];
    for my $class ('Größe', 'Привет') {
        my $name = $class;
        utf8::encode($name);
        my ($status, $out) = $operator->ask('heap', '--why', $name);
        is $status, 0;
        like $out, qr/^[1-9]\d* objects of \Q$name\E in worker 0 /, 'and is found by that name';
        like $out, qr/held by my \@kept .* -> \(\Q$name\E\)$/m;
    }
};

subtest 'no route grows by what another one before it has had' => sub {
    my ($operator, $server) = start(<<'APP');
my $kept;
my %do = (
    '/takes'   => sub { my $io = $_[0]{'psgix.io'}; sub { print {$io} "HTTP/1.1 200 OK\r\n\r\n"; close $io } },
    '/keeps'   => sub { $kept = $_[0]; [200, [], []] },
    '/catches' => sub { eval { die bless [1 .. 9], 'Caught' }; [200, [], []] },
    '/dies'    => sub { die bless [1 .. 9], 'Caught' },
    '/cleans'  => sub { push @{$_[0]{'psgix.cleanup.handlers'}}, sub { }; [200, [], []] },
);
sub { ($do{$_[0]{PATH_INFO}} || sub { [200, [], []] })->($_[0]) };
APP
    my $fields = join '', map { "X-Field-$_: x\r\n" } qw(a b c d e f g h i j);
    for my $name (qw(takes keeps catches dies cleans fields)) {
        for (1 .. 40) {
            my $more = $name eq 'fields' ? $fields : '';
            Howdah::Test::Client->ask($server, "GET /$name HTTP/1.1\r\nHost: x\r\n${more}Connection: close\r\n\r\n");
            Howdah::Test::Client->ask($server, "GET /after-$name HTTP/1.1\r\nHost: x\r\n\r\n");
        }
    }
    is_deeply [map { "$_->{route}: $_->{values}" } @{$operator->status->{pools}[0]{growth}}], [];
};

subtest 'nor does a kept script by the variables of its request' => sub {
    my ($operator, $server) =
        start('use Howdah::CGI::Keep; Howdah::CGI::Keep->new(root => "t/cgi/scripts", mount => "/cgi")->to_app');
    my $fields = join '', map { "X-Field-$_: x\r\n" } qw(a b c d e f g h i j);
    for (1 .. 40) {
        Howdah::Test::Client->ask($server, "GET /cgi/meta.cgi HTTP/1.1\r\nHost: x\r\n$fields\r\n");
        Howdah::Test::Client->ask($server, "GET /cgi/umask.cgi HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    is_deeply [map { "$_->{route}: $_->{values}" } @{$operator->status->{pools}[0]{growth}}], [];
};

subtest 'thousands of objects are counted one by one' => sub {
    my ($operator, $server) = start('my @kept; sub { push @kept, map { bless [], "Many" } 1 .. 500; [200, [], []] }');
    my $report = look($operator, $server, '/');
    my ($many) = grep { $_->{class} eq 'Many' } @{$report->{objects}};
    is $many->{objects}, 500 * $report->{requests};
};

subtest 'what has the place of an object that is gone is another' => sub {
    my $app = <<'APP';
my @kept;
sub {
    my @gone = map { bless [], 'Gone' } 1 .. 200;
    @gone = ();
    push @kept, map { qr/x/ } 1 .. 200;    # objects that perl itself blesses, and nobody notes
    [200, [], []];
};
APP
    is_deeply [grep { $_->{class} eq 'Gone' } @{look(start($app), '/')->{objects}}], [];
};

subtest 'strings that are evaluated are one place' => sub {
    my $app = <<'APP';
my (@one, @other);
sub {
    if ($_[0]{PATH_INFO} eq '/kept') { push @other, bless [], 'Kept'; return [200, [], []] }
    eval q{bless []} for 1 .. 1000;
    push @one, eval q{bless [], 'Evaluated'};
    [200, [], []];
};
APP
    my @server = start($app);
    my ($one) = grep { $_->{class} eq 'Evaluated' } @{look(@server, '/')->{objects}};
    is $one->{place}{file}, '(eval)';
    is $one->{caller}{line}, 5, 'told apart by who has called';
    my ($other) = grep { $_->{class} eq 'Kept' } @{look(@server, '/kept')->{objects}};
    is $other->{place}{line}, 3, 'as many as there are, they take no room from the places of others';
};

subtest 'a closure that leaks among thousands that do not' => sub {
    my $app = <<'APP';
our @rest;
eval join "\n", map { "push \@rest, do { my \$x = $_; sub { \$x } };" } 1 .. 5000;
@rest == 5000 or die $@;
sub { my ($x, $leaks); $leaks = sub { $x = $leaks } if $_[0]{PATH_INFO} eq '/leak'; [200, [], []] };
APP
    my ($operator, $server) = start($app);
    my $finish = begin_howdah(qw(leaks --json --requests 20 --control), $operator->control);

    # There is none of its kind yet when it begins.
    sleep 1;
    Howdah::Test::Traffic::ask($server, '/leak') for 1 .. 40;
    my ($status, $out, $err) = $finish->();
    is $status, 0 or diag $err;
    is_deeply [map { $_->{place}{line} } grep { $_->{class} eq 'CODE' } @{decode_json($out)->{kinds}}], [4];
};

subtest 'what threads bless is of no request' => sub {
    plan skip_all => 'this perl has no threads' if !$Config{useithreads};
    my $app = <<'APP';
use threads;
my @kept;
sub {
    threads->create(sub { my @made = map { bless [], 'InThread' } 1 .. 3; scalar @made })->join;
    push @kept, bless [], 'Kept';
    [200, [], []];
};
APP
    my $report = look(start($app), '/');
    is_deeply [map { $_->{class} } @{$report->{objects}}], ['Kept'];
    is $report->{blessed}, $report->{requests}, 'nor counted, or looked at when their memory is gone';
};

done_testing;
