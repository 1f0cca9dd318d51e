# howdah heap: a file that Devel::MAT reads, of a worker that goes on; and what holds the objects of a class, down to a
# variable with a name.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::File qw(write_file);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Traffic;
use JSON::PP qw(decode_json);
use POSIX qw(SIGTERM);
use Test::More;

my $app = <<'APP';
package Shop::Cache {
    our %all;
    my @recent;
    sub keep { my ($n, $item) = @_; $all{$n} = {item => $item}; push @recent, bless [], 'Shop::Recent'; return }
}
package Shop::Tied { require Tie::Hash; our @ISA = 'Tie::StdHash' }
my %sessions;
sub {
    my ($n) = $_[0]{PATH_INFO} =~ /(\d+)/;
    Shop::Cache::keep($n, bless [], 'Shop::Item');
    $sessions{$n} = bless {}, 'Shop::Session';
    my $circle = bless {}, 'Shop::Circle';
    $circle->{self} = {to => $circle};
    tie my %tied, 'Shop::Tied';
    $Shop::tied{$n} = \%tied;
    return [200, [], [$$]];
};
APP

my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, $operator->options]);
Howdah::Test::Traffic::ask($server, "/$_") for 1 .. 20;
my ($worker) = $server->workers;

subtest 'what holds the objects of a class' => sub {
    my $file = $server->dir . '/app.psgi';
    for my $case (
        ['Shop::Item', qr/^\s+20  held by %Shop::Cache::all -> \{\d+\} -> \{item\} -> \(Shop::Item\)$/m],
        [
            'Shop::Recent',
            qr/^\s+20  held by my \@recent in Shop::Cache::keep, \Q$file\E -> \[\d+\] -> \(Shop::Recent\)$/m
        ],
        ['Shop::Session', qr/^\s+20  held by my %sessions in \Q$file\E -> \{\d+\} -> \(Shop::Session\)$/m],
        ['Shop::Tied', qr/^\s+20  held by %Shop::tied -> \{\d+\} -> \(magic\) -> \(Shop::Tied\)$/m],
        ['Shop::Circle', qr/^\s+20  held by themselves: an object -> \{self\} -> \{to\}$/m],
        ['Shop::None', qr/^0 objects of Shop::None in worker 0 \(pid \d+\): another may have some, see --worker$/],
        )
    {
        my ($class, $expected) = @$case;
        my ($status, $out, $err) = $operator->ask('heap', '--why', $class);
        is $status, 0 or diag $err;
        like $out, $expected, $class;
    }
    my $found = decode_json(($operator->ask('heap', '--why', 'Shop::Circle', '--json'))[1]);
    is_deeply [@$found{qw(objects lost)}], [20, 20];
};

# Of perl's `class`.
subtest 'objects whose fields hold others' => sub {
    plan skip_all => 'needs perl 5.38' if $] < 5.038;
    my $fields = <<'APP';
use v5.38;
use experimental 'class';
class Shop::Shelf { field $width = 1; field @items; method put($item) { push @items, $item } }
class Shop::Rack :isa(Shop::Shelf) { field $label; method set() { $label = bless [$label], 'Shop::Label' } }
my $rack = Shop::Rack->new;
sub { $rack->put(bless [], 'Shop::Item'); $rack->set; [200, [], []] };
APP
    my $asked  = Howdah::Test::Operator->new;
    my $served = Howdah::Test::Server->start(app => $fields, options => ['--workers', 1, $asked->options]);
    Howdah::Test::Traffic::ask($served, "/$_") for 1 .. 3;
    my $held = qr/held by my \$rack in \S+ -> \(Shop::Rack\)/;
    like + ($asked->ask('heap', '--why', 'Shop::Item'))[1],
        qr/^\s+3  $held -> field \@items -> \[\d+\] -> \(Shop::Item\)$/m, 'of the class above';
    like + ($asked->ask('heap', '--why', 'Shop::Label'))[1], qr/^\s+1  $held -> field \$label -> \(Shop::Label\)$/m,
        'of the class itself';
};

subtest 'why there is no answer yet is told' => sub {
    my ($pid) = map { $_->{pid} } @{$operator->status->{workers}{list}};
    kill STOP => $pid;
    my $later = fork // die $!;
    if (!$later) {
        sleep 6;
        kill CONT => $pid;
        POSIX::_exit(0);
    }
    my ($status, $out, $err) = $operator->ask('heap', '--why', 'Shop::None');
    waitpid $later, 0;
    is $status, 0;
    like $err, qr/^howdah: this takes a while: a worker comes to it between two requests/;
    like $out, qr/^0 objects of Shop::None/, 'and then it comes';
};

subtest 'of workers one that has time is asked' => sub {
    my $asked = Howdah::Test::Operator->new;
    my $slow =
        'sub { my ($file) = $_[0]{QUERY_STRING}; select undef, undef, undef, 0.02 until -e $file; [200, [], []] }';
    my $two  = Howdah::Test::Server->start(app => $slow, options => ['--workers', 2, $asked->options]);
    my @go   = map { $asked->dir . "/$_" } 'one', 'other';
    my $busy = sub {
        join ' ', map { $_->{index} } grep { $_->{request} } @{$asked->status->{workers}{list}};
    };
    my @clients;
    my $hold = sub {
        push @clients, Howdah::Test::Client->new($two);
        $clients[-1]->write("GET /?$_[0] HTTP/1.0\r\n\r\n");
        $two->wait_until(sub { @{[split / /, $busy->()]} == @clients });
    };
    $hold->($go[0]);
    if ($busy->() ne '0') {
        $hold->($go[1]);
        write_file($go[0], '');
        $two->wait_until(sub { $busy->() eq '0' });
    }
    is $busy->(), '0', 'the first has a request';
    my ($status, $out, $err) = $asked->ask('heap', '--why', 'Shop::None');
    is $status, 0 or diag $err;
    like $out, qr/^0 objects of Shop::None in worker 1 \(pid \d+\): .*\n\z/, 'the other tells';
    write_file($_, '') for @go;
};

subtest 'one that has been stopped is not asked' => sub {
    my $asked = Howdah::Test::Operator->new;
    my $two = Howdah::Test::Server->start(app => 'sub { [200, [], []] }', options => ['--workers', 2, $asked->options]);
    my ($first) = map { $_->{pid} } grep { $_->{index} == 0 } @{$asked->status->{workers}{list}};
    kill STOP => $first;
    my ($status, $out, $err) = $asked->ask('heap', '--why', 'Shop::None');
    is $status, 0 or diag $err;
    like $out, qr/^0 objects of Shop::None in worker 1 \(pid \d+\)/, 'the other tells';
    ($status, $out, $err) = $asked->ask('leaks', '--workers', 1, '--seconds', 1);
    unlike $out, qr/has not told/, 'and looks for leaks';
    kill CONT => $first;
};

subtest 'a file, or how to get one' => sub {
    my $file = $operator->dir . '/heap.pmat';
    my ($status, $out, $err) = $operator->ask('heap', '--output', $file);
    if (!eval { require Devel::MAT::Dumper; 1 }) {
        is $status, 1;
        like $err, qr/libdevel-mat-dumper-perl/, 'what is to be installed';
        ok !-e $file, 'and no file';
        return;
    }
    is $status, 0 or diag $err;
    like $out, qr{^the heap of worker 0 \(pid $worker\) is in \Q$file\E, \d+ bytes};
    is + (stat $file)[2] & oct(777), oct(600), 'for nobody else';
    open my $in, '<:raw', $file or die $!;
    read $in, my $magic, 4;
    is $magic, 'PMAT';
    ($status, undef, $err) = $operator->ask('heap', '--output', $file);
    is $status, 1;
    like $err, qr/cannot make \Q$file\E: name another file by --output/, 'nothing is written over';
    my @ask = (howdah_bin(), 'heap', '--control', $operator->control, '--output', "$file.2");
    ($status, undef, $err) = run_command('/bin/sh', '-c', q{trap '' XFSZ; ulimit -f 1; exec "$0" "$@"}, @ask);
    is $status, 1, 'no room';
    like $err, qr/cannot write \Q$file.2\E: name another by --output: File too large/;
    ok !-e "$file.2", 'of which no half is left';
    ($status, undef, $err) = $operator->ask('heap', '--output', "$file.2", '--max-size', '1m');
    is $status, 1;
    like $err, qr/--max-size/, 'too long';
    ok !-e "$file.2", 'leaves none behind';
};

subtest 'who asks and is ended before there is an answer leaves no file' => sub {
    my $own  = Howdah::Test::Operator->new;
    my $busy = Howdah::Test::Server->start(
        app     => 'sub { warn "begun\n"; sleep 60 }',
        options => ['--workers', 1, $own->options]
    );
    my $client = Howdah::Test::Client->new($busy);
    $client->write("GET / HTTP/1.0\r\n\r\n");
    $busy->wait_for_log(qr/begun/);
    my $file = $own->dir . '/heap.pmat';
    my $pid  = fork // die $!;
    exec howdah_bin(), 'heap', '--control', $own->control, '--output', $file or POSIX::_exit(1) if !$pid;
    ok $busy->wait_until(sub {
        grep { (readlink($_) // '') =~ m{^\Q${\$own->dir}\E/} } glob "/proc/$pid/fd/*";
        }),
        'it has begun';
    kill TERM => $pid;
    waitpid $pid, 0;
    is $?, SIGTERM;
    ok !-e $file, 'there is none';
};

subtest 'the worker has gone on' => sub {
    is Howdah::Test::Traffic::ask($server, '/21')->{body}, $worker;
    my ($status, undef, $err) = $operator->ask('heap', '--why', 'X', '--worker', 7);
    is $status, 1;
    like $err, qr/there is no such worker: the only one has the number 0/;
    ok $server->wait_until(sub { $server->processes(qr/worker/) == 1 }), 'no child is left';
};

done_testing;
