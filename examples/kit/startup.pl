# Builds the application once in a process that runs many scripts: what mod_perl's PerlRequire is given, or howdah's -M.
# kept.cgi answers with it.
use strict;
use warnings;

use File::Basename qw(dirname);
use lib dirname(__FILE__) . '/lib';
use Guestbook;

Guestbook->build->cache;

1;
