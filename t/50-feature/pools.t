# Several applications in one server: each has processes, memory and options of its own; commands mean all of them, or the
# one that --pool names.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $operator = Howdah::Test::Operator->new;
my $dir      = $operator->dir;

sub write_app {
    my ($name, $version, $before) = @_;
    open my $out, '>', "$dir/$name.psgi" or die $!;
    print {$out} ($before // ''), "sub { [200, [], ['$version']] };\n";
    close $out or die $!;
    return "$dir/$name.psgi";
}

my ($main, $wiki) = map { write_app($_, "$_ 1") } qw(main wiki);
my @options = ('--workers', 2, '--mount', "/wiki=$wiki,workers=1,max-requests=7", $operator->options);
my $server  = Howdah::Test::Server->start(file => $main, options => \@options);
my %path    = (main => '/', wiki => '/wiki');
sub answer { return Howdah::Test::Client->ask($server, "GET $path{$_[0]} HTTP/1.0\r\n\r\n")->{body} }
sub processes { my $of = shift; return $server->processes(qr{(?:worker \[|zygote )\Q$dir\E/$of\.psgi}) }

# The segments that a process has mapped, by inode.
sub segments {
    my $pid = shift;
    open my $maps, '<', "/proc/$pid/maps" or die $!;
    my %inodes = map { m{ (\d+) +/memfd:howdah \(deleted} ? ($1 => 1) : () } <$maps>;
    return keys %inodes;
}

subtest 'each has its own zygote, workers, options and shared memory' => sub {
    is answer($_), "$_ 1" for keys %path;
    my %pools = map { $_->{name} => $_ } @{$operator->status->{pools}};
    is_deeply [sort keys %pools], ['/', '/wiki'], 'the status has both';
    is_deeply [map { $pools{$path{$_}}{application} } qw(main wiki)], [$main, $wiki];
    is_deeply [map { $pools{$path{$_}}{workers}{target} } qw(main wiki)], [2, 1];
    is_deeply [map { !!$_->{quota} } map { $pools{$path{$_}}{workers}{list}[0] } qw(main wiki)], [!!0, !!1];
    is_deeply [map { scalar processes($_) } qw(main wiki)], [3, 2], 'so has ps';
    my %mapped = map {
        my $of = $_;
        map { $_ => $of } map { segments($_) } processes($of)
    } qw(main wiki);
    is scalar(keys %mapped), 2, 'two segments';
    is_deeply [map { scalar segments($_) } map { processes($_) } qw(main wiki)], [(1) x 5], 'and nobody has both';
};

subtest 'howdah reload means all, --pool one' => sub {
    write_app($_, "$_ 2") for qw(main wiki);
    my ($status, $out) = $operator->ask('reload', '--pool', '/wiki');
    is_deeply [$status, $out], [0, "/wiki: generation 2 serves\n"];
    is_deeply [map { answer($_) } qw(main wiki)], ['main 1', 'wiki 2'];
    ($status, $out) = $operator->ask('reload');
    is_deeply [$status, $out], [0, "/: generation 2 serves; /wiki: generation 3 serves\n"];
    is answer('main'), 'main 2';

    write_app('wiki', 'wiki 3', "die 'broken deploy';\n");
    write_app('main', 'main 3');
    ($status, undef, my $err) = $operator->ask('reload');
    is $status, 1, 'one that does not load';
    like $err, qr{/: generation 3 serves; /wiki: the new code does not load, the old goes on: .*broken deploy};
    is_deeply [map { answer($_) } qw(main wiki)], ['main 3', 'wiki 2'], 'keeps no other from being exchanged';

    write_app($_, "$_ 4") for qw(main wiki);
    $server->signal('HUP');
    for my $of (qw(main wiki)) {
        ok $server->wait_until(sub { answer($of) eq "$of 4" }), "HUP means all: $of";
    }
};

subtest 'howdah workers wants to know whose' => sub {
    my ($status, undef, $err) = $operator->ask('workers', '+1');
    is $status, 1;
    like $err, qr{several applications are served: say by --pool which is meant, / or /wiki};
    ($status, undef, $err) = $operator->ask('workers', 3, '--pool', '/wikis');
    is $status, 1;
    like $err, qr{no application is mounted at /wikis; there is / or /wiki};
    is + ($operator->ask('workers', 3, '--pool', 'wiki'))[1], "3 workers from now on\n";
    ok $server->wait_until(sub { processes('wiki') == 4 && processes('main') == 3 }), 'they come';
};

subtest 'the log names whose supervisor speaks' => sub {
    like $server->log, qr{the application is loaded.* generation=1 .*pool=/wiki$}m;
    like $server->log, qr{the application is loaded.* generation=1 .*pool=/$}m;
    is $server->stop, 0;
};

subtest 'all must come up, or none does' => sub {
    write_app('wiki', 'wiki 5', "die 'broken from the start';\n");
    my $half = Howdah::Test::Server->launch(file => $main, options => ['--mount', "/wiki=$wiki"]);
    is $half->wait_for_exit, 1;
    like $half->log, qr{the application at /wiki: the application does not load: .*broken from the start};
    ok $half->wait_until(sub { !processes_of($half) }), 'no process stays behind';
};

sub processes_of { return $_[0]->processes(qr/(?:worker|zygote)/) }

done_testing;
