# The shortest application of the kit: a sub. `bin/howdah examples/kit/hello.psgi`, or
#
#     perl -Mblib -MHowdah::Kit -e 'kit "examples/kit/hello.psgi", workers => 10'
#
# then curl 'http://127.0.0.1:5000/?name=Ada'
use strict;
use warnings;

use Howdah::Kit;

Howdah::Kit->psgi_app(sub {
    my $c = shift;
    return $c->text('Hello ' . ($c->param('name') // 'World') . "\n");
});
