#!/usr/bin/env perl
# A CGI script, for any web server. To try it in the shell:
#
#     REQUEST_METHOD=GET PATH_INFO=/ perl -Mblib examples/kit/guestbook.cgi
use strict;
use warnings;

use FindBin ();
use lib "$FindBin::Bin/lib";
use Guestbook;

Guestbook->run;
