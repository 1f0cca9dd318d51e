# The zygote reads the command's JSON itself.
use strict;
use warnings;

use Howdah::Zygote;
use JSON::PP;
use Test::More;

my %plain =
    (app => 'app.psgi', eval => undef, control => 5, preload => JSON::PP::true, full_destruct => JSON::PP::false);
my %cases = (
    'plain values'    => [\%plain, {%plain, preload => 1, full_destruct => 0}],
    'lists'           => [{inc  => ['a', 'b c'], modules                            => []}],
    'quoted text'     => [{eval => qq{sub { [200, [], ["}\\\n\t{,:]\x01"]] }}, name => ''}],
    'text, not ASCII' => [{app  => "caf\xC3\xA9"}],
    'nothing'         => [{}],
);
for my $name (sort keys %cases) {
    my ($wish, $expected) = @{$cases{$name}};
    my $json = JSON::PP->new->encode($wish);
    is_deeply({Howdah::Zygote::_read($json)}, $expected // $wish, $name);
}

ok(!eval { Howdah::Zygote::_read('{"app":{"nested":1}}'); 1 }, 'what the command never writes is refused');
like($@, qr/^HOWDAH_ZYGOTE is not what the howdah command writes$/);

done_testing;
