# Several applications through the life of a server: an upgrade takes over all of them, a stop drains all of them, and no
# request to any is lost.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $operator = Howdah::Test::Operator->new;
my $dir      = $operator->dir;
my %path     = (main => '', wiki => '/wiki');

sub write_app {
    my ($name, $version, $before) = @_;
    open my $out, '>', "$dir/$name.psgi" or die $!;
    print {$out} ($before // '') . <<"PSGI";
        my \$load = do './t/apps/load.psgi' or die;
        sub {
            my \$path = \$_[0]{PATH_INFO};
            if (\$path eq '/slow') { print STDERR "$name is slow\\n"; select undef, undef, undef, 1.5 }
            return \$path =~ m{^/\\d} ? \$load->(\@_) : [200, [], ['$name $version']];
        };
PSGI
    return close $out;
}

write_app($_, 'first') for keys %path;
my @options = ('--workers', 2, '--mount', "/wiki=$dir/wiki.psgi", $operator->options);
my $server  = Howdah::Test::Server->start(file => "$dir/main.psgi", options => \@options);
my $port    = $server->port;
sub ask { my ($of, $rest) = @_; return "GET $path{$of}$rest HTTP/1.1\r\nHost: x\r\n\r\n" }
sub answer { my ($of) = @_; return Howdah::Test::Client->ask($port, ask($of, '/'))->{body} }

sub load {
    my (%how) = @_;
    return map { Howdah::Test::Load->start($server, connections => 5, below => $path{$_}, %how) } sort keys %path;
}

sub all_served {
    for my $result (map { $_->finish } @_) {
        is_deeply $result->{problems}, [];
        is_deeply [keys %{$result->{status}}], [200], "$result->{requests} requests";
    }
    return;
}

subtest 'two upgrades under load' => sub {
    my @load = (load(seconds => 8), load(seconds => 8, fresh => 1));
    for my $round (1, 2) {
        sleep 1;
        my $old = $operator->pid;
        write_app($_, "upgrade $round") for keys %path;
        my ($status, undef, $err) = $operator->ask('upgrade');
        is $status, 0 or diag $err;
        is answer($_), "$_ upgrade $round" for sort keys %path;
        is_deeply [map { $_->{name} } @{$operator->status->{pools}}], ['/', '/wiki'], 'the status has both';
        ok $operator->wait_for_end($old), 'the old process leaves';
    }
    all_served(@load);
};

subtest 'a new process in which one does not load is none' => sub {
    my $old = $operator->pid;
    write_app('wiki', 'broken', "die 'broken wiki';\n");
    my ($status, undef, $err) = $operator->ask('upgrade');
    is $status, 1;
    like $err, qr{no upgrade, process $old goes on: .*at /wiki: .*broken wiki};
    is answer($_), "$_ upgrade 2" for sort keys %path;
    is $operator->pid, $old;
    write_app('wiki', 'mended');
};

subtest 'a stop lets each application finish what it has begun' => sub {
    my $last = $operator->pid;
    my @load = load(reopen => 0, rests => 0.25);
    $_->wait_for_connections for @load;
    my %slow = map { $_ => Howdah::Test::Client->new($port) } keys %path;
    for my $of (keys %slow) {
        $slow{$of}->write(ask($of, '/slow'));
        ok $server->wait_until(sub { $server->log =~ /$of is slow/ }), "$of runs one";
    }
    kill TERM => $last;
    is $slow{$_}->response->{body}, "$_ upgrade 2" for sort keys %slow;
    all_served(@load);
    ok $operator->wait_for_end($last), 'it ends';
    ok !-e "$dir/$_", "$_ is gone" for qw(control pid);
};

done_testing;
