# The judge of the table by which CGI scripts are tested: Debian's Apache. By mod_cgi all that is expected of a process of a
# script's own must come true, but for what the table says; by ModPerl::Registry what the table says of that is looked at for
# a few, since each takes a server of its own. t/cgi/compare prints all.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Apache;
use Howdah::Test::Traps;
use Test::More;

Howdah::Test::Apache->is_installed && Howdah::Test::Apache->has_module('cgi')
    or plan skip_all => "there is no Apache httpd with mod_cgi";
my $table = Howdah::Test::Traps->new(mode => 'exec');

sub is_known_to_differ { my ($how, $row) = @_; return $row->{but}{$how} && !$row->{but}{$how}{skip} }

subtest 'mod_cgi' => sub {
    my $traps  = Howdah::Test::Traps->new(mode => 'exec', skip => 'cgi');
    my $apache = Howdah::Test::Apache->run_scripts('cgi', 't/cgi/scripts');
    for my $script ($traps->scripts) {
        my $row = $traps->row($script);
        my ($found) = $traps->differences($apache->port, $script);
        is !!defined $found, !!is_known_to_differ('cgi', $row), "$script: $row->{says}" or diag $found // 'the same';
    }
};

subtest 'ModPerl::Registry' => sub {
    Howdah::Test::Apache->has_module('perl') or plan skip_all => 'there is no mod_perl';
    for my $script (qw(exit.cgi global.cgi umask.cgi children.cgi handle.cgi prototype.cgi status.cgi)) {
        my $apache  = Howdah::Test::Apache->run_scripts('registry', 't/cgi/scripts');
        my $row     = $table->row($script);
        my ($found) = $table->differences($apache->port, $script);
        is !!defined $found, !!is_known_to_differ('registry', $row), "$script: $row->{says}"
            or diag $found // 'the same';
    }
};

done_testing;
