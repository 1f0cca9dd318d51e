# howdah profile --nytprof: one more worker runs under Devel::NYTProf for a while, and what it finds can be opened; the
# others do not notice.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::File qw(write_file);
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use JSON::PP qw(decode_json);
use Test::More;

my $APP = <<'PSGI';
package Shop { sub total { my $sum = 0; $sum += $_ for 1 .. 2000; return $sum } }
my $app = do './t/apps/load.psgi' or die $@ || $!;
sub { Shop::total(); system 'true' if $_[0]{PATH_INFO} =~ /7$/; $app->(@_) };
PSGI

my $dir      = File::Temp->newdir;
my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(app => $APP, options => ['--workers', 2, $operator->options]);
my @workers  = sort $server->workers;
my @ask      = ('profile', '--nytprof');
my @file     = ('--output', "$dir/p");

# No worker of another generation, no other zygote.
sub is_as_before {
    my $what = shift;
    ok $server->wait_until(sub { $server->processes(qr/zygote/) == 1 && "@{[sort $server->workers]}" eq "@workers" }),
        "$what: the same workers, and one zygote";
    return;
}

subtest 'where it is not installed' => sub {
    my $lib = File::Temp->newdir;
    mkdir "$lib/Devel" or die $!;
    write_file("$lib/Devel/NYTProf.pm", q{die "Can't locate Devel/NYTProf.pm in @INC\n"});
    local $ENV{PERL5LIB} = join ':', $lib, $ENV{PERL5LIB} // ();
    my $other = Howdah::Test::Operator->new;
    my $bare  = Howdah::Test::Server->start(app => $APP, options => ['--workers', 1, $other->options]);
    my ($status, undef, $err) = $other->ask(@ask, @file, '--seconds', 1);
    is $status, 1;
    like $err, qr/Devel::NYTProf is not installed.*apt install libdevel-nytprof-perl/, 'says what is missing';
    ok !-e "$dir/p.nytprof", 'and leaves no file';
    ok $bare->wait_until(sub { $bare->processes(qr/zygote/) == 1 && $bare->workers == 1 }), 'and no process';
};

subtest 'an earlier profile, where there is none this time' => sub {
    my $earlier = write_file("$dir/earlier.nytprof", 'what was found before');
    my ($status, undef, $err) = $operator->ask(@ask, '--output', "$dir/earlier", '--seconds', 1, '--pool', '/none');
    is $status, 1;
    like $err, qr{no application is mounted at /none};
    is -s $earlier, length("what was found before\n"), 'stays as it was';
};

if (!eval { require Devel::NYTProf::Core; 1 }) {
    done_testing;
    exit;
}

subtest 'under load' => sub {
    my $load = Howdah::Test::Load->start($server, connections => 6);
    my ($status, $out, $err) = $operator->ask(@ask, @file, '--seconds', 3, '--json');
    is $status, 0 or diag $err;
    my $result = $load->stop->finish;
    is_deeply $result->{problems}, [], 'no request is lost';
    is_deeply [keys %{$result->{status}}], [200];
    my $told = decode_json($out);
    cmp_ok $told->{requests}, '>', 0, "it has served $told->{requests} of $result->{requests}";
    like $told->{worker}, qr/^worker \d+ \(pid \d+\)$/;
    is $told->{bytes}, -s "$dir/p.nytprof", 'the file';
    is + (stat _)[2] & oct(777), oct(600), 'for nobody else';
    is_as_before('afterwards');

    my $said = `nytprofhtml --no-flame --file $dir/p.nytprof --out $dir/html 2>&1`;
    is $?, 0, 'nytprofhtml opens it' or diag $said;
    ok -s "$dir/html/index.html";
    my $calls = `nytprofcalls $dir/p.nytprof 2>&1`;
    my @subs  = grep { /Shop::total/ } split /\n/, $calls;
    ok @subs, 'the subs of the application are in it' or diag $calls;
    ok((grep { /app-psgi/ } glob "$dir/html/*-line.html"), 'and its lines');
    is_deeply [glob '/tmp/howdah-nytprof-*'], [], 'no temporary file is left';
};

subtest 'what cannot be' => sub {
    for (
        [[@file, '--seconds', 0], 1, qr/--nytprof needs an end/],
        [['--hz', 10], 2, qr/cannot be used with/],
        [[@file, '--pool', '/none'], 1, qr{no application is mounted at /none}],
        [['--output', "$dir/none/p"], 1, qr/cannot write .*none.*name another by --output/],
        )
    {
        my ($more, $expected, $words) = @$_;
        my ($status, undef, $err) = $operator->ask(@ask, @$more);
        is $status, $expected, "@$more";
        like $err, $words;
    }
    my $first = Howdah::Test::Traffic->begin(@ask, @file, '--seconds', 30, '--control', $operator->control);
    ok $server->wait_until(sub { $server->workers == 3 }), 'one is under way';
    my ($status, undef, $err) = $operator->ask(@ask, '--output', "$dir/q");
    like $err, qr/another such command is under way/, 'one at a time';
    my ($guest) = grep {
        my $pid = $_;
        !grep { $_ == $pid } @workers
    } $server->workers;
    kill KILL => $guest;
    ok $server->wait_until(sub { $server->workers == 2 }), 'it dies';
    ($status, undef, $err) = $first->outcome;
    is $status, 1;
    like $err, qr/has died|has ended/, 'which is told';
    is_as_before('when it has died');
    my @new = ('--output', "$dir/r");
    $first = Howdah::Test::Traffic->begin(@ask, @new, '--seconds', 30, '--control', $operator->control);
    ok $server->wait_until(sub { $server->workers == 3 }), 'another is under way';
    $first->interrupt;
    is_as_before('when nobody wants to know any more');
    ok $server->wait_until(sub { !-e "$dir/r.nytprof" }), 'and there is no empty file';
};

done_testing;
