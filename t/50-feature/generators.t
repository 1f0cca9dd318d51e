# Random number generators that modules seed while the application is loaded, once for all of a process: each worker has
# numbers of its own, be it forked from the zygote or from a worker that has become one. Objects that cannot begin anew are
# told of in the log.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my %generator = (
    'Data::Entropy'          => ['use Data::Entropy::Algorithms qw(rand_int); rand_int(2)', 'rand_int(1_000_000_000)'],
    'Math::Prime::Util'      => ['use Math::Prime::Util; Math::Prime::Util::irand()', 'Math::Prime::Util::irand64()'],
    'Math::Prime::Util::GMP' => ['use Math::Prime::Util::GMP', 'Math::Prime::Util::GMP::irand()'],
    'Math::Random::MT::Auto' => ['use Math::Random::MT::Auto qw(irand); irand()', 'irand()'],
    'PDL::Primitive'         => ['use PDL::LiteF; PDL->random(3)', 'PDL->random(3)->sum'],
    'Math::Random::Secure'   => ['use Math::Random::Secure qw(irand); irand()', 'irand()'],
);

# What each of eight workers draws first, one after another and all forked from the same process.
sub drawn {
    my ($load, $draw, @options) = @_;
    my $server = Howdah::Test::Server->start(
        app     => "use Howdah; $load; sub { [200, [], [$draw]] }",
        options => ['--workers', 1, '--max-requests', 1, @options]
    );
    my %drawn;
    $drawn{Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body}}++ for 1 .. 8;
    $server->stop;
    return \%drawn, $server->log;
}

for my $module (sort keys %generator) {
    subtest $module => sub {
        my ($load, $draw) = @{$generator{$module}};
        plan skip_all => "$module is not installed" if !eval "require $module; 1";    ## no critic
        my ($drawn, $log) = drawn($load, $draw);
        is scalar(keys %$drawn), 8, 'each worker has numbers of its own' or diag explain $drawn;
        unlike $log, qr/workers inherit|random numbers of/, '... and nothing is told';
        ($drawn) = drawn("$load; Howdah->before_fork(sub { $draw })", $draw);
        is scalar(keys %$drawn), 8, '... also when a hook draws before each fork';
    };
}

subtest 'one that does not begin anew' => sub {
    my $broken = '$INC{"Math/Random/MT/Auto.pm"} = 1; sub Math::Random::MT::Auto::srand { die "no seed\n" }';
    my ($drawn, $log) = drawn($broken, '$$');
    is scalar(keys %$drawn), 8, 'keeps nobody from serving';
    like $log, qr/random numbers of Math::Random::MT::Auto do not begin anew, and may be the same .*: no seed$/m,
        '... and is told';
};

subtest 'one that is loaded in use, and inherited from there' => sub {
    my $app = 'sub Math::Random::MT::Auto::srand { our $renewed = $$ }'
        . ' sub { $INC{"Math/Random/MT/Auto.pm"} = 1; [200, [], [join " ", getppid, $$, our $renewed // 0]] }';
    my $server   = Howdah::Test::Server->start(app => $app, options => ['--workers', 1, '--refork', 2]);
    my $ask      = sub { split ' ', Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n")->{body} };
    my ($zygote) = $ask->();
    my ($parent, $worker, $renewed);
    ok $server->wait_until(sub { ($parent, $worker, $renewed) = $ask->(); $parent != $zygote }),
        'a worker has become the zygote';
    is $renewed, $worker, 'its workers begin anew';
};

subtest 'a key that draws a number for each signature' => sub {
    my $key =
        'BEGIN { $INC{"CryptX.pm"} = $INC{"Crypt/PK/ECC.pm"} = 1; our $key = bless \my $state, "Crypt::PK::ECC" }';
    my (undef, $log) = drawn("$key \$CryptX::VERSION = '0.087'", '$$');
    is scalar(() = $log =~ /workers inherit a key, an object of Crypt::PK::ECC: .*CryptX 0\.088, or .*after_fork/g), 1,
        'is told of once';
    (undef, $log) = drawn("$key \$CryptX::VERSION = '0.088'", '$$');
    unlike $log, qr/workers inherit/, 'unless that notices a fork';
};

done_testing;
