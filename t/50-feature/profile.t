# howdah profile: hot spots that were planted in an application are what its table and its files name first.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin);
use Howdah::Test::File qw(read_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use JSON::PP;
use POSIX ();
use Test::More;

plan skip_all => 'needs Mojolicious' if !eval { require Mojolicious; 1 };

my $APP = <<'PSGI';
use Mojolicious::Lite -signatures;
use Time::HiRes qw(time);
package Shop {
    use Digest::SHA 'sha512_hex';
    our $text = 'x' x 60_000;
    sub during ($code) { my $end = Time::HiRes::time() + 0.1; $code->() while Time::HiRes::time() < $end }
    sub search { during(sub { ('a' x 22) =~ /^(a+)+\1[bc]/ }) }
    sub nap ($for) { select undef, undef, undef, $for }
    sub digest { during(sub { sha512_hex($text) }) }
    sub count { my $i = 0; during(sub { $i++ for 1 .. 20_000 }) }
}
app->log->level('fatal');
get '/search/:id' => sub ($c) { Shop::search(); $c->render(text => 'ok') };
get '/nap' => sub ($c) { Shop::nap($c->param('for') // 0.2); $c->render(text => 'ok') };
get '/digest' => sub ($c) { Shop::digest(); $c->render(text => 'ok') };
get '/count' => sub ($c) { Shop::count(); $c->render(text => 'ok') };
get '/page' => sub ($c) { $c->render('page', rows => [1 .. 3000]) };
app->start;
__DATA__
@@ page.html.ep
% for my $row (@$rows) {
<p><%= $row %> of <%= scalar @$rows %></p>
% }
PSGI

my $operator = Howdah::Test::Operator->new;
my $dir      = File::Temp->newdir;
my $server   = Howdah::Test::Server->start(app => $APP, options => ['--workers', 2, $operator->options]);

sub line_of {
    my $code  = shift;
    my @lines = split /\n/, $APP;
    return (grep { index($lines[$_ - 1], $code) >= 0 } 1 .. @lines)[0];
}

# Requests one after the other, in a process beside us, until told to end.
sub load {
    my @paths = @_;
    my $pid   = fork // die $!;
    return $pid if $pid;
    my $answered = 0;
    local $SIG{TERM} = sub { POSIX::_exit(0) };
    while (1) {
        for my $path (@paths) {
            my $answer = Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\n\r\n");
            POSIX::_exit(1) if ($answer->{status} // 0) != 200;
        }
    }
}

sub end { my $pid = shift; kill TERM => $pid; waitpid $pid, 0; return $? }

# The load ends without having heard the last answer: a slow perl would still be at that request when the next profile begins.
sub rest {
    return $server->wait_until(sub {
        !grep { $_->{state} eq 'busy' } @{$operator->status->{workers}{list}};
    });
}

sub profile {
    my ($status, $out, $err) = $operator->ask('profile', '--json', '--output', "$dir/p", @_);
    is $status, 0 or diag $err;
    return decode_json($out);
}

sub share {
    my ($rows, $test) = @_;
    my $sum = 0;
    $sum += $_->{share} for grep { $test->($_) } @$rows;
    return $sum;
}

# What is asked for, what kind of line it is, which sub, its code, the least share.
my @cases = (
    ['/search/17', qr/^\[regex\]$/, 'Shop::__ANON__', 'sub search', 0.5, '/search/*'],
    ['/nap', qr/^\[syscall p?select6?\]$/, 'Shop::nap', 'sub nap', 0.5, '/nap'],
    ['/digest', qr/^\[xs Digest::SHA::sha512_hex\]$/, 'Shop::__ANON__', 'sub digest', 0.5, '/digest'],
    ['/count', qr/^$/, 'Shop::__ANON__', 'sub count', 0.5, '/count'],
);
for my $case (@cases) {
    my ($path, $kind, $sub, $code, $least, $route) = @$case;
    subtest "time goes to $path" => sub {
        my $load  = load($path);
        my $table = profile('--seconds', '1500ms');
        is end($load), 0, 'every request was answered';
        rest();
        my $first = $table->{lines}[0];
        is $first->{line}, line_of($code), 'its line stands first' or diag explain $table->{lines};
        like $first->{file}, qr/app\.psgi$/;
        like $first->{sub}, qr/^\Q$sub\E/;
        like $first->{kind}, $kind;
        cmp_ok share($table->{lines}, sub { $_[0]{line} == line_of($code) }), '>', $least, 'with most of the time';
        is $table->{routes}[0]{route}, $route, 'its route, too';
        cmp_ok $table->{idle}, '>', 0, 'one of two workers was idle';
        like read_file("$dir/p.svg"), qr/<title>Shop::\Q${\($sub =~ s{Shop::}{}r)}\E/, 'it is in the flame graph';
    };
}

subtest 'several at once, by route and by processor' => sub {
    my @load  = (load('/nap', '/nap'), load('/count', '/page'));
    my $table = profile('--seconds', 3);
    cmp_ok share($table->{routes}, sub { $_[0]{route} eq '/nap' }), '>', 0.25, 'waiting is time';
    my ($nap) = grep { $_->{sub} eq 'Shop::nap' } @{$table->{subs}};
    cmp_ok $nap->{whole}, '>', 0.25;
    cmp_ok $table->{seconds}, '>', 2, 'two workers have twice the time';
    cmp_ok $table->{seconds}, '<', 12;
    my $folded = read_file("$dir/p.folded");
    like $folded, qr/^(?:[^;]+;)+Shop::nap;\[syscall p?select6?\] app\.psgi:\d+ \d+$/m, 'folded stacks';
    unlike $folded, qr/Howdah::Worker/, 'without our own frames';
    my $speedscope = decode_json(read_file("$dir/p.speedscope.json"));
    my ($profile) = @{$speedscope->{profiles}};
    is scalar @{$profile->{samples}}, scalar @{$profile->{weights}}, 'speedscope';
    cmp_ok abs($profile->{endValue} / 1e6 - $table->{seconds}), '<', 0.1;

    # A busy machine has workers wait for a processor before and after each nap, which counts: this one is long.
    is end($_), 0, 'every request was answered' for splice @load, 0, 1, load('/nap?for=4');
    $table = profile('--seconds', 3, '--cpu');
    is share($table->{routes}, sub { $_[0]{route} eq '/nap' }) < 0.1, 1, '--cpu leaves out who waits';
    $table = profile('--seconds', '1500ms', '--route', '/nap');
    is_deeply [map { $_->{route} } @{$table->{routes}}], ['/nap'], '--route leaves out the others';
    is end($_), 0, 'every request was answered' for @load;
    rest();
};

# Looks at workers until it is interrupted, once the code is through: what it says then.
sub profile_while {
    my ($code, @options) = @_;
    my @command = (howdah_bin(), 'profile', '--seconds', 0, '--control', $operator->control, @options);
    my $pid     = open my $out, '-|', @command or die $!;
    $server->wait_until(sub { catches(INT => $pid) }) or die 'howdah profile does not begin';
    sleep 1;
    $code->() if $code;
    kill INT => $pid;
    my $said = do { local $/ = undef; <$out> };
    close $out;
    is $?, 0, 'interrupted, it tells what it has seen';
    return $said;
}

sub catches {
    my ($name, $pid) = @_;
    my ($caught) = read_file("/proc/$pid/status") =~ /^SigCgt:\s*[[:xdigit:]]*([[:xdigit:]]{8})$/m;
    return hex($caught) & 1 << POSIX->can("SIG$name")->() - 1;
}

subtest 'while workers come and go' => sub {
    my $load   = load('/count', '/nap', '/page');
    my $reload = sub {
        is + ($operator->ask('reload'))[0], 0, 'a reload goes well';
        sleep 4;
    };
    my $told = profile_while($reload, '--json', '--output', "$dir/p");
    cmp_ok decode_json($told)->{workers}, '>=', 3, 'new workers are looked at, too';
    is end($load), 0, 'no request is lost';
};

subtest 'until Ctrl-C' => sub {
    like profile_while(undef, '--output', "$dir/c"), qr/ looks at 2 workers/, 'of which workers';
    ok -s "$dir/c.svg";
};

my ($status, $out, $err) = $operator->ask('profile', '--seconds', '200ms', '--output', "$dir/p");
like $out, qr/ looks at 2 workers: .*self    with called  sub.*time  line.*time  route.*written: \S+\.svg /s,
    'for people';
symlink '/dev/full', "$dir/full.svg" or die $!;
($status, $out, $err) = $operator->ask('profile', '--seconds', '200ms', '--output', "$dir/full");
is $status, 1;
like $out, qr/ looks at 2 workers: .*time  route/s, 'what it has seen, also where it cannot be written';
unlike $out, qr/written:/;
like $err, qr/cannot write \S+full\.svg: name another by --output/;
is_deeply [glob "$dir/full*"], [], 'and nothing is left of it';

($status, $out, $err) = $operator->ask('profile', '--seconds', '200ms', '--output', "$dir/one.svg");
is $status, 0;
my @files = map { "$dir/one.$_" } qw(folded speedscope.json svg);
is_deeply [glob "$dir/one*"], \@files, 'the name of one file names all';

{
    my $pid = open my $lines, '-|', howdah_bin(), 'profile', '--seconds', 0, '--control', $operator->control,
        '--output',
        "$dir/killed"
        or die $!;
    sleep 1;
    kill TERM => $pid;
    close $lines;
    is_deeply [glob "$dir/killed*"], [], 'one that is ended before leaves no files';
}
my @wrong = (

    # It is told before the look, which has no end.
    [['--output', "$dir/none/p", '--seconds', 0], 1, qr/cannot write .*none.*name another by --output/],
    [['--route', 'x'], 2, qr{a path begins with /}],
    [['--hz', '0'], 2, qr/'0' for '--hz <N>': not a whole number from 1 to 2000/],
    [['--wall', '--cpu'], 2, qr/cannot be used with/],
    [['--pool', '/none'], 1, qr{no application is mounted at /none}],
);
for my $case (@wrong) {
    ($status, undef, $err) = $operator->ask('profile', @{$case->[0]});
    is $status, $case->[1];
    like $err, $case->[2];
}

done_testing;
