# The same eleven bytes, logged by Plack's middleware in the combined format.
use strict;
use warnings;

use Plack::Builder;

builder {
    enable 'AccessLog', format => 'combined';
    sub {
        return [200, ['Content-Type' => 'text/plain', 'Content-Length' => 11], ['Hello World']];
    };
};
