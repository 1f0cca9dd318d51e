# What streams of HTTP/2 are tried with, by path.
use strict;
use warnings;

my %do = (
    '/pid'   => sub { select undef, undef, undef, 0.05; [200, [], [$$]] },
    '/big'   => sub { [200, [], ['x' x 3_000_000]] },
    '/304'   => sub { [304, ['ETag' => '"x"'], []] },
    '/204'   => sub { [204, [], []] },
    '/empty' => sub { [200, ['Content-Type' => 'application/grpc', 'grpc-status' => 5], []] },
    '/205'   => sub { [205, [], ['not to be sent']] },
    '/die'   => sub { die "no\n" },
    '/hang'  => sub { select undef, undef, undef, 60; [200, [], ['late']] },
    '/short' => sub { [200, ['Content-Length' => 10], ['short']] },
    '/dies'  => sub {
        sub { $_[0]->([200, []])->write('a little'); die "behind a little\n" }
    },
    '/killed' => sub {
        my $late = $_[0]{QUERY_STRING};
        sub { $_[0]->([200, []])->write('x' x 400_000); sleep $late; kill KILL => $$; sleep 60 }
    },
    '/dies-promising' => sub {
        sub { $_[0]->([200, ['Content-Length' => 10]])->write('a little'); die "behind a little\n" }
    },
    '/after' => sub {
        sub { $_[0]->([200, [], ['whole']]); die "behind the response\n" }
    },
    '/works' => sub {
        sub { $_[0]->([200, [], ['whole']]); sleep 3 }
    },
    '/works-behind-a-file' => sub {
        sub {
            open my $file, '+>', undef or die $!;
            print {$file} 'x' x 200_000;
            seek $file, 0, 0;
            $_[0]->([200, [], $file]);
            sleep 3;
        }
    },
    '/works-on' => sub {
        sub {
            my $writer = $_[0]->([200, ['Content-Length' => 5]]);
            $writer->write('whole');
            sleep 3;
        }
    },
    '/long'   => sub { [200, ['Content-Length' => 5], ['whole and more']] },
    '/longer' => sub {
        sub {
            my $writer = $_[0]->([200, ['Content-Length' => 5]]);
            $writer->write($_) for 'who', 'le and ', 'more';
            $writer->close;
        }
    },
    '/hints' => sub { $_[0]{'psgix.informational'}->(103, ['Link' => '</a.css>']); [200, [], ['hinted']] },
    '/file'  => sub { open my $in, '<', __FILE__ or die; [200, [], $in] },
    '/grows' => sub {
        sub {
            my $writer = $_[0]->([200, []]);
            for (1 .. 5) { $writer->write("$_\n"); select undef, undef, undef, 0.02 }
            $writer->close;
        }
    },
    '/endless' => sub {
        sub {
            my $writer  = $_[0]->([200, []]);
            my $written = 0;
            print STDERR "begun\n";
            eval {
                while (1) { $writer->write('x' x 100_000); ++$written }
            };
            print STDERR "left after $written\n";
            $writer->close;
        }
    },
    '/length' => sub {
        my ($length, $part) = 0;
        $length += length $part while read $_[0]{'psgi.input'}, $part, 65536;
        [200, [], [$length]];
    },
);
sub { my $do = $do{$_[0]{PATH_INFO}} or return [404, [], ['?']]; return $do->(@_) };
