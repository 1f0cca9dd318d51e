# What modules.cgi would load at each request, as mod_perl's startup files have it: Template Toolkit loads most of itself
# when it is first used.
use strict;
use warnings;

use Template::Config ();

Template::Config->preload or die Template::Config->error;
