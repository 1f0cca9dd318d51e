#!/usr/bin/env perl
# The kit's parts without a web application: a letter from a template. `perl -Mblib examples/kit/parts.pl Ada`
use strict;
use warnings;

use Howdah::Kit;
use Template;

my $letter = "Dear [% name %],\n[% guests.size %] guests came: [% guests.join(', ') %].\n";
my $engine = Template->new(ENCODING => 'UTF-8');

# An engine is an object, or a sub such as this one, which has its only template in memory.
my $templates = sub {
    my ($name, $variables) = @_;
    $engine->process(\$letter, $variables, \my $text) or die $engine->error . "\n";
    return $text;
};

my $core = Howdah::Kit->core(templates => $templates);
binmode STDOUT, ':encoding(UTF-8)';
print $core->get_content('letter', {name => shift // 'World', guests => [qw(Grace Alan)]});
