#!/usr/bin/perl
# A page that is small, by modules that are not: most of what it costs as a process is to compile them.
use strict;
use warnings;

use CGI      ();
use JSON::PP ();
use Template ();

my $query = CGI->new;
my $herd  = JSON::PP->new->decode('[{"name":"Ada","humps":2},{"name":"Ben","humps":1},{"name":"Cleo","humps":2}]');
my $page  = <<'HTML';
<html><head><title>Herd of [% name %]</title></head><body><ul>
[% FOREACH camel IN herd %]<li>[% camel.name | html %] has [% camel.humps %]</li>
[% END %]</ul></body></html>
HTML
print $query->header(-type => 'text/html', -charset => 'utf-8');
my $template = Template->new;
$template->process(\$page, {name => CGI::escapeHTML($query->param('name') // 'nobody'), herd => $herd})
  or die $template->error;
