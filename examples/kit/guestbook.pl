#!/usr/bin/env perl
# Stand-alone: this process becomes the server. `perl -Mblib examples/kit/guestbook.pl`, with a port if 5000 is taken.
use strict;
use warnings;

use FindBin ();
use lib "$FindBin::Bin/lib";
use Guestbook;

my $port = shift // 5000;
Guestbook->psgi_app->start(workers => 10, listen => "127.0.0.1:$port");
