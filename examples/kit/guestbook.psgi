# The value of a .psgi file: `bin/howdah examples/kit/guestbook.psgi`, or any other PSGI server.
use strict;
use warnings;

use FindBin ();
use lib "$FindBin::Bin/lib";
use Guestbook;

Guestbook->psgi_app;
