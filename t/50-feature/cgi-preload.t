# --cgi-preload: what scripts would load when they run is loaded before they are compiled, in the modes that can keep it, and
# shows in nothing but %INC. What cannot be loaded is named in the log, and by `howdah check`.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::File qw(write_file);
use Howdah::Test::Scripts;
use Test::More;

my $late = <<'PERL';
#!/usr/bin/perl
print "Content-Type: text/plain\n\n", join(' ', grep { $_ eq 'Text/Balanced.pm' } keys %INC), "|";
require Text::Balanced;
print main->can('extract_bracketed') ? 'imported' : 'not imported', '|', scalar @main::startup;
PERL
my $scripts = Howdah::Test::Scripts->new('late.pl' => $late);
my $startup = $scripts->dir . q{/o'b, startup};
write_file($startup, "push \@main::startup, 1;\nrequire Text::Balanced;\n1;");
symlink $startup, $scripts->dir . '/startup';

# Each is asked twice: the second answer shows what a request leaves behind.
for (
    ['fork, nothing', 'fork', [], '|not imported|0'],
    ['exec, a module', 'exec', ['preload=Text::Balanced'], '|not imported|0'],
    ['fork, a module', 'fork', ['preload=Text::Balanced'], 'Text/Balanced.pm|not imported|0'],
    ['auto, a module', 'auto', ['preload=Text::Balanced'], 'Text/Balanced.pm|not imported|0'],
    ['keep, a module', 'keep', ['preload=Text::Balanced'], 'Text/Balanced.pm|not imported|0'],
    ['fork, a file', 'fork', ['preload=' . $scripts->dir . '/startup'], 'Text/Balanced.pm|not imported|1'],
    ['keep, a file', 'keep', ['preload=' . $scripts->dir . '/startup'], 'Text/Balanced.pm|not imported|1'],
    ['fork, two of all', 'fork', ['preload=strict', 'preload=Text::Balanced'], 'Text/Balanced.pm|not imported|0'],
    )
{
    my ($what, $mode, $options, $expected) = @$_;
    my $server = $scripts->serve($mode, $options);
    is $scripts->get($server, 'late.pl')->{body}, $expected, "$what, request $_" for 1 .. 2;
    is $server->stop, 0;
}

subtest 'a file that closes descriptor 2 behind perl' => sub {
    my $none   = Howdah::Test::Scripts->new;
    my $server = $none->serve(
        'keep',
        ['preload=' . $scripts->write('closing', 'use POSIX (); POSIX::close(2); 1;' =~ s/\A/#!\n/r)]
    );
    $none->write('says.pl', qq{#!$^X\nprint STDERR "said\\n"; print "Status: 204\\n\\n";\n});
    is $none->get($server, 'says.pl')->{status}, 204;
    ok $server->wait_for_log(qr{GET /c/says\.pl: said}), 'takes no line from scripts';
    is $server->stop, 0;
};

subtest 'what is said for all mounts holds where a mount says nothing' => sub {
    for (['own', ['preload=strict'], ''], ['none', [], 'Text/Balanced.pm']) {
        my ($what, $options, $seen) = @$_;
        my $server = $scripts->serve('fork', $options, '--cgi-preload=Text::Tabs,Text::Balanced');
        is $scripts->get($server, 'late.pl')->{body}, "$seen|not imported|0", $what;
        is $server->stop, 0;
    }
};

subtest 'what cannot be loaded' => sub {
    my $found  = qr{Can't locate No/Such/Module\.pm};
    my $server = $scripts->serve('fork', ['preload=No::Such::Module']);
    is $scripts->get($server, 'late.pl')->{status}, 500, 'is a script that does not compile, in mode fork';
    ok $server->wait_for_log($found), 'and the log says why';
    is $server->stop, 0;
    for my $command ('serve', 'check') {
        my @options = ('--listen', '127.0.0.1:0', $scripts->option('keep', 'preload=No::Such::Module'));
        my ($status, undef, $err) = run_howdah($command, @options);
        isnt $status, 0, "$command says that it is no server of mode keep";
        like $err, $found;
    }
    my ($status, undef, $err) = run_howdah('check', $scripts->option('fork', 'preload=No::Such::Module'));
    isnt $status, 0, 'check says that no script of mode fork compiles';
    like $err, $found;
};

done_testing;
