# One version: the program's, the Perl modules', and the one that CPAN sees.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(run_howdah);
use Test::More;
use version;

use Howdah;
use Howdah::XS;

my ($program) = (run_howdah('--version'))[1] =~ /^howdah (\S+)/;
is(version->parse($Howdah::VERSION)->normal, "v$program", 'Howdah.pm');
is(version->parse($Howdah::XS::VERSION)->normal, "v$program", 'Howdah::XS');

done_testing;
