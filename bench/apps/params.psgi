# What a small application does: reads its parameters, answers a page of 4000 bytes, is logged.
use strict;
use warnings;

use Plack::Builder;
use Plack::Request;

my $page = 'x' x 3990;

builder {
    enable 'AccessLog', format => 'combined';
    sub {
        my $request = Plack::Request->new(shift);
        my $body    = sprintf '%-10s%s', $request->param('name') // '', $page;
        return [200, ['Content-Type' => 'text/html', 'Content-Length' => length $body], [$body]];
    };
};
