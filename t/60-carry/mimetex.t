# mimetex, as Debian has it: a program in C that makes a picture of a formula.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Carry;
use Test::More;

Howdah::Test::Carry->new(
    program => '/usr/lib/cgi-bin/mimetex.cgi',
    at      => '/cgi-bin/mimetex.cgi',
    auto    => 'exec',
    ways    => [qw(wrapped exec auto)],
)->walk(sub {
    my $agent = shift;
    my %size;
    for my $formula ('x', 'x%5E2', '%5Cfrac%7B1%7D%7Bn%7D%5Csum_%7Bi=1%7D%5En+x_i', '%5Clarge+x') {
        my $got = $agent->get("?$formula");
        is join(' ', $got->code, scalar $got->content_type), '200 image/gif', "?$formula";
        my ($format, $width, $height) = unpack 'A6 v v', $got->content;
        like $got->content, qr/;\0*\z/, 'a whole picture';
        is $got->header('Content-Length') // length $got->content, length $got->content, 'as long as it says';
        like $format, qr/^GIF8/, "$width times $height";
        $size{$formula} = $width * $height;
    }
    cmp_ok $size{x}, '<', $size{'%5Clarge+x'}, 'a larger letter is a larger picture';
    is $agent->get('?x')->content, $agent->get('?x')->content, 'the same formula is the same picture';
});
