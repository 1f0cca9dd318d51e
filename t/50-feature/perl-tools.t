# Perl's own tools in a worker, as docs/perl-tools.md says: the debugger, and what has been covered by tests.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::File qw(read_if_any write_file);
use Howdah::Test::Server;
use Test::More;

my $dir = File::Temp->newdir;
my $app = 'sub { my $env = shift; $DB::single = 1; my $path = $env->{PATH_INFO}; [200, [], ["it is $path"]] }';

sub get { my ($server, $path) = @_; return Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\n\r\n")->{body} }

subtest 'the debugger stops where the application says, and asks on its terminal' => sub {
    my $commands = write_file("$dir/commands", qq{\$env->{PATH_INFO} = '/debugged'\nc});
    my $server   = Howdah::Test::Server->start(
        app     => $app,
        options => ['--workers', 1],
        env     => {PERL5OPT => '-d', PERLDB_OPTS => "NonStop=1 ReadLine=0 TTY=$commands,$dir/said"},
    );
    is get($server, '/x'), 'it is /debugged', 'what was typed has been done';
    like read_if_any("$dir/said"), qr/app\.psgi:1/, 'the line is shown';
    is $server->stop, 0;
};

subtest 'where it could ask nobody the server does not start' => sub {
    local $ENV{PERLDB_OPTS};
    delete $ENV{PERLDB_OPTS};
    my $server = Howdah::Test::Server->launch(app => $app, env => {PERL5OPT => '-d'});
    isnt $server->wait_for_exit, 0, 'a status of its own';
    like $server->log, qr/^howdah: PERL5OPT=-d has .*: set PERLDB_OPTS=NonStop=1, and write \$DB::single = 1;/m;
};

# Every handle of the application would have these layers.
subtest 'with layers that change what handles read or say the server does not start' => sub {
    for my $layers (':crlf', ':unix:perlio crlf', 'stdio') {
        my $server = Howdah::Test::Server->launch(app => $app, env => {PERLIO => $layers});
        isnt $server->wait_for_exit, 0, $layers;
        like $server->log, qr/^howdah: PERLIO=\Q$layers\E (?:takes|leaves) .*: unset PERLIO/m, '... is named';
    }
    is get(Howdah::Test::Server->start(app => $app, env => {PERLIO => ':perlio'}), '/x'), 'it is /x',
        'as perl has them it does';
    my $plackup = Howdah::Test::Server->launch(
        command => [$^X, '-S', 'plackup', '-s', 'Howdah', '-E', 'test', '--listen', '127.0.0.1:0'],
        file    => write_file("$dir/app.psgi", $app),
        env     => {PERLIO => ':crlf'},
    );
    isnt $plackup->wait_for_exit, 0, 'nor by plackup';
    like $plackup->log, qr/^howdah: PERLIO=:crlf takes .*: unset PERLIO/m, '... which says so, too';
};

subtest 'Devel::Cover writes what each worker has seen' => sub {
    plan skip_all => 'there is no Devel::Cover' if !eval { require Devel::Cover::DB };
    my $server = Howdah::Test::Server->start(
        app =>
            'sub answer { if ($_[0] eq "/a") { return "yes" } return "no" } sub { [200, [], [answer($_[0]{PATH_INFO})]] }',
        options => ['--workers', 1, '--max-requests', 1, '--full-destruct'],
        env     => {PERL5OPT => "-MDevel::Cover=-db,$dir/cover_db,-blib,0,-silent,1,+ignore,Howdah"},
    );
    is get($server, $_->[0]), $_->[1] for ['/a', 'yes'], ['/b', 'no'];
    is $server->stop, 0;
    my $covered = Devel::Cover::DB->new(db => "$dir/cover_db")->merge_runs->cover;
    my ($file) = grep { /app\.psgi$/ } $covered->items;
    is_deeply [grep { /Howdah/ } $covered->items], [], 'nothing of Howdah';
    my $branch = $covered->file($file)->branch;
    my @missed = grep { $_->error } map { @{$branch->location($_)} } $branch->items;
    is @missed, 0, 'both workers are counted';
};

done_testing;
